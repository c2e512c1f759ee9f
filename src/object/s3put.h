/* Writing to S3 in one request. How a lost answer is resolved stands at the top of s3put.c. */
#pragma once
#include "object/s3store.h"

int s3put_put(struct object_store *s, struct object_call *call, const char *key, struct slice bytes, const struct object_put_options *options, struct object_meta *meta);

enum { S3PUT_CRC_BYTES = 9 };
void s3put_crc(char out[S3PUT_CRC_BYTES], struct slice bytes); /* the CRC-32C as x-amz-checksum-crc32c has it: big endian, base64 */
