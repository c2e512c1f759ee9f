/* Writing to S3 in parts. */
#pragma once
#include "object/s3store.h"

/* As object_put_stream: in one request up to part_bytes, else as a multipart upload. */
int s3upload_put_stream(struct object_store *s, struct object_call *call, const char *key, const struct object_source *source, const char *content_type, struct object_meta *meta);
