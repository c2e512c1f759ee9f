/* The commands of `sherd snapshot` that look at what is published: on the command line, and in the shell of `sherd snapshot repl`. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"
#include "cli/cliargs.h"
#include "object/object.h"
#include "sherd.h"

/* Runs argv[0], one of get, multiget, scan, route, info, shards, health, history, rollback, cleanup, verify, repl; gives the exit code, or -1 if it is none of these. */
int snapshot_read_run(int argc, char **argv);
/* One line per command, for the help of `sherd snapshot`. */
void snapshot_read_help(FILE *to);

/* ---- shared by the files snapshot_*.c */

enum snapread_output { SNAPREAD_TEXT, SNAPREAD_TABLE, SNAPREAD_JSON, SNAPREAD_JSONL, SNAPREAD_OUTPUTS };
enum snapread_encoding { SNAPREAD_USUAL /* raw as text, else base64 */, SNAPREAD_BASE64, SNAPREAD_HEX, SNAPREAD_UTF8, SNAPREAD_RAW, SNAPREAD_ENCODINGS };

/* What a command line says; strings belong to it. */
struct snapread_args {
    const char *url;
    const char **words; /* behind the command and the URL: keys, mostly */
    size_t n_words;
    enum snapread_output output;
    enum snapread_encoding encoding;
    struct sherd_options reader;
    struct object_options objects;
    struct cliargs_pairs context; /* for routing */
    const char *prefix, *start, *end, *after; /* scan */
    uint64_t limit, shard;
    bool has_limit, has_shard, reverse, keys_only;
    bool strict, dry_run, shallow, latest;
    double staleness_seconds;
    uint64_t keep_last;
    int64_t older_than_us, orphan_age_us;
};

struct snapread {
    struct snapread_args *args;
    struct sherd_reader *reader; /* for commands that read */
    struct object_store *store;  /* for those that work on the store; NULL until it is needed */
    FILE *out;
};

/* Each gives an exit code. */
int snapread_get(struct snapread *r);
int snapread_multiget(struct snapread *r);
int snapread_scan(struct snapread *r);
int snapread_route(struct snapread *r);
int snapread_info(struct snapread *r);
int snapread_shards(struct snapread *r);
int snapread_health(struct snapread *r);
int snapread_history(struct snapread *r);
int snapread_rollback(struct snapread *r);
int snapread_cleanup(struct snapread *r);
int snapread_verify(struct snapread *r);
int snapread_refresh(struct snapread *r);
int snapread_use(struct snapread *r);
int snapread_repl(struct snapread *r);

/* A line of the shell: words[0] is the command. Gives its exit code, or -1: there is no such command. */
int snapread_line(struct snapread *r, int argc, char **argv);
void snapread_line_help(FILE *to);

/* The store at the URL, opened when first asked for; NULL, and it was told why. */
struct object_store *snapread_store(struct snapread *r, const char *op);

/* ---- output */

/* Shows a document, which is taken: JSON as it is; a table of its one array of objects, or of its fields; text by the function, or "field: value" where that is NULL. EXIT_WELL, or EXIT_TROUBLE if it
 * could not be written. */
int snapread_show(struct snapread *r, json_t *doc, void (*text)(FILE *out, const json_t *doc));
/* Tells a failure on standard error, in the form of the output: gives EXIT_TROUBLE. key may be NULL. */
int snapread_fail(const struct snapread *r, const char *op, const char *key, const char *text);

/* A value in the chosen encoding: as JSON, and as bytes appended. */
json_t *snapread_value(const struct snapread *r, const void *data, size_t size);
void snapread_value_text(const struct snapread *r, struct buf *out, const void *data, size_t size);
/* As it stands in a table: its JSON, printable. */
void snapread_value_cell(const struct snapread *r, struct buf *out, const void *data, size_t size);
/* A key as JSON: number, string, or {"base64": ...} where it is no UTF-8; and as text. */
json_t *snapread_key(const struct sherd_key *key);
void snapread_key_text(struct buf *out, const struct sherd_key *key);
json_t *snapread_bytes(const void *data, size_t size);
