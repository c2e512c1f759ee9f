/* Looks keys up in a published snapshot, and lists those with a prefix.
 *
 *     cc -o lookup lookup.c $(pkg-config --cflags --libs sherd)
 *     ./lookup s3://bucket/prefix get user-17 user-18
 *     ./lookup file:///data/catalogue scan user- */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sherd.h>

static int fail(const struct sherd_error *why)
{
    fprintf(stderr, "%s: %s\n", sherd_error_name(why->code), why->text);
    return 1;
}

/* Snapshots whose keys are numbers want numbers, the others text. */
static struct sherd_key make_key(struct sherd_reader *reader, const char *word)
{
    struct sherd_info info = {.size = sizeof info};
    sherd_reader_info(reader, &info, NULL);
    int is_number = strcmp(info.key_encoding, "u64be") == 0 || strcmp(info.key_encoding, "u32be") == 0;
    sherd_info_free(&info);
    return is_number ? sherd_key_int(strtoull(word, NULL, 10)) : sherd_key_text(word, strlen(word));
}

static int get(struct sherd_reader *reader, int n, char **words)
{
    struct sherd_value value = {0};
    struct sherd_error why;
    int rc = 0;
    for (int i = 0; i < n && rc >= 0; i++) {
        struct sherd_key key = make_key(reader, words[i]);
        rc = sherd_reader_get(reader, &key, NULL, &value, &why);
        if (rc == 1) printf("%s = %.*s\n", words[i], (int)value.size, (const char *)value.data);
        if (rc == 0) printf("%s is not there\n", words[i]);
    }
    sherd_value_free(&value);
    return rc < 0 ? fail(&why) : 0;
}

static int scan(struct sherd_reader *reader, const char *prefix)
{
    struct sherd_error why;
    struct sherd_key key, begins = sherd_key_text(prefix, strlen(prefix));
    struct sherd_range range = {.size = sizeof range, .prefix = &begins};
    const void *data;
    size_t size;
    int rc;
    struct sherd_cursor *cursor = sherd_reader_scan(reader, &range, &why);
    if (!cursor) return fail(&why);
    while ((rc = sherd_cursor_next(cursor, &key, &data, &size, &why)) == 1) printf("%.*s = %.*s\n", (int)key.size, (const char *)key.data, (int)size, (const char *)data);
    sherd_cursor_close(cursor);
    return rc < 0 ? fail(&why) : 0;
}

int main(int argc, char **argv)
{
    struct sherd_error why;
    if (argc < 4) {
        fprintf(stderr, "usage: lookup URL get KEY... | lookup URL scan PREFIX\n");
        return 2;
    }
    struct sherd_reader *reader = sherd_reader_open(argv[1], NULL, &why);
    if (!reader) return fail(&why);
    int code = strcmp(argv[2], "scan") == 0 ? scan(reader, argv[3]) : get(reader, argc - 3, argv + 3);
    sherd_reader_close(reader);
    return code;
}
