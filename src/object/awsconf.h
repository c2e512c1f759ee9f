/* Where the settings of s3:// come from when options do not give them: the environment, then the AWS files.
 *
 *   keys       options; a profile named in the options; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; the files. Always all of one place
 *   region     options; AWS_REGION; AWS_DEFAULT_REGION; `region` of the profile; us-east-1
 *   endpoint   options; AWS_ENDPOINT_URL_S3; AWS_ENDPOINT_URL; `endpoint_url` of the profile; none: AWS itself
 *   CA file    options; AWS_CA_BUNDLE; none: the system's certificates
 *   profile    options; AWS_PROFILE; AWS_DEFAULT_PROFILE; default
 *   files      AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials; AWS_CONFIG_FILE or ~/.aws/config. One that is not there is empty
 *
 * Sections are [name] in the credentials file and [profile name] or [default] in the config file; lines are "name = value"; # and ; begin comment lines; indented lines belong
 * to settings that have their own blocks and are passed over. */
#pragma once
#include <stdbool.h>

#include "base/slice.h"
#include "object/object.h"

struct awsconf {
    char *access_key, *secret_key, *session_token; /* NULL: none */
    char *region, *endpoint, *ca_file;
};
void awsconf_fini(struct awsconf *c);

enum awsconf_file { AWSCONF_CREDENTIALS, AWSCONF_CONFIG };

/* Takes over the settings of a profile that c does not have yet (keys: all or none). *found: there is a section of it. Gives 0, or the number of the first line that is none of the
 * above. Pure. */
unsigned awsconf_parse(struct awsconf *c, struct slice source, enum awsconf_file kind, struct slice profile, bool *found);

/* Fills c from options, environment (through env, like getenv) and files. Gives 0, or a code of base/err.h and why in words; awsconf_fini in both cases. */
int awsconf_resolve(struct awsconf *c, const struct object_options *o, char *(*env)(const char *name), char error[OBJECT_DETAIL_BYTES]);
