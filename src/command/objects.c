#include "command/objects.h"

#include "base/num.h"
#include "command/command.h"
#include "store/evict.h"

enum { EMBSTR_MAX_BYTES = 44 };

const char *objects_type_name(enum type t)
{
    static const char *const names[TYPE_COUNT] = {
        [TYPE_STRING] = "string", [TYPE_LIST] = "list", [TYPE_SET] = "set",
        [TYPE_ZSET] = "zset",     [TYPE_HASH] = "hash", [TYPE_STREAM] = "stream"};
    return names[t];
}

/* Our strings have one form; clients and their tests expect the name by the content. */
static const char *string_encoding(struct slice value)
{
    int64_t v;
    if (num_parse_i64(value, &v)) return "int";
    return value.n <= EMBSTR_MAX_BYTES ? "embstr" : "raw";
}

const char *objects_encoding_name(const struct entry *e)
{
    switch (entry_encoding(e)) {
    case ENC_BYTES: return string_encoding(entry_value(e));
    case ENC_PACK: return "listpack";
    case ENC_INTS: return "intset";
    case ENC_NODES: return "quicklist";
    case ENC_TABLE: return "hashtable";
    case ENC_TREE: return "skiplist";
    case ENC_COLD: break;
    }
    return "unknown";
}

static void reply_encoding(struct exec *x, const struct place *at) { reply_bulk_str(&x->out, objects_encoding_name(at->e)); }

/* No value is shared. */
static void reply_refcount(struct exec *x, const struct place *at) { reply_int(&x->out, 1); }

static void reply_idletime(struct exec *x, const struct place *at)
{
    if (at->store->limits->lfu)
        reply_error(&x->out, "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching "
                             "between policies at runtime LRU and LFU data will take some time to adjust.");
    else
        reply_int(&x->out, evict_idle_ms(x->now_ms, entry_access(at->e)) / 1000);
}

static void reply_freq(struct exec *x, const struct place *at)
{
    if (at->store->limits->lfu)
        reply_int(&x->out, evict_freq(at->store->limits, x->now_ms, entry_access(at->e)));
    else
        reply_error(&x->out, "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
                             "between policies at runtime LRU and LFU data will take some time to adjust.");
}

static const struct {
    const char *name;
    void (*answer)(struct exec *x, const struct place *at);
} subcommands[] = {
    {"encoding", reply_encoding},
    {"freq", reply_freq},
    {"idletime", reply_idletime},
    {"refcount", reply_refcount},
};

static void reply_help(struct exec *x)
{
    static const char *const lines[] = {
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
        NULL};
    exec_help(x, lines);
}

static void wrong_arity(struct exec *x, const char *sub)
{
    reply_errorf(&x->out, "ERR wrong number of arguments for 'object|%s' command", sub);
}

bool objects_needs_values(const struct slice *argv, uint32_t argc) { return slice_is(argv[1], "encoding"); }

void objects_command(struct exec *x)
{
    if (slice_is(x->argv[1], "help")) {
        if (x->argc == 2)
            reply_help(x);
        else
            wrong_arity(x, "help");
        return;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++) {
        if (!slice_is(x->argv[1], subcommands[i].name)) continue;
        if (x->argc != 3) {
            wrong_arity(x, subcommands[i].name);
            return;
        }
        struct place at;
        exec_peek(x, x->argv[2], &at); /* asking about a key is no use of it */
        if (at.e)
            subcommands[i].answer(x, &at);
        else
            reply_null(&x->out);
        return;
    }
    exec_unknown_subcommand(x);
}
