#include "server/optval.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "command/command.h"
#include "server/config.h"
#include "server/options.h"

_Static_assert((int)OPTVAL_CLIENT_CLASSES == (int)CONFIG_CLIENT_CLASSES, "one number of client classes");

struct why {
    char *text;
    size_t cap;
};

static int refuse(struct why *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int refuse(struct why *why, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why->text, why->cap, fmt, ap);
    va_end(ap);
    return -1;
}

static int in_range(const struct option *o, int64_t num, struct why *why)
{
    if (num >= o->min && num <= o->max) return 0;
    return refuse(why, "argument must be between %lld and %lld inclusive", (long long)o->min, (long long)o->max);
}

static int parse_bool(struct slice text, struct optval *v, struct why *why)
{
    v->num = slice_is(text, "yes") || slice_is(text, "true");
    if (v->num || slice_is(text, "no") || slice_is(text, "false")) return 0;
    return refuse(why, "argument must be 'yes' or 'no'");
}

/* Seconds may be written as 10s, 5m or 2h: takes the letter off and gives what it stands for. */
static int64_t take_unit(const struct option *o, struct slice *text)
{
    static const char letters[] = "smh";
    static const int64_t seconds[] = {1, 60, 3600};
    const char *at = o->unit && strcmp(o->unit, "seconds") == 0 && text->n > 1 ? memchr(letters, text->p[text->n - 1], strlen(letters)) : NULL;
    if (!at) return 1;
    text->n--;
    return seconds[at - letters];
}

static int parse_int(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    int64_t unit = take_unit(o, &text);
    if (!num_parse_i64(text, &v->num) || __builtin_mul_overflow(v->num, unit, &v->num)) return refuse(why, "argument couldn't be parsed into an integer");
    return in_range(o, v->num, why);
}

static int parse_bytes(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    uint64_t bytes;
    if (!num_parse_bytes(text, &bytes)) return refuse(why, "argument must be a memory value");
    v->num = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
    return in_range(o, v->num, why);
}

static int parse_octal(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    if (text.n == 0 || text.n > 6) return refuse(why, "argument couldn't be parsed as an octal number");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7') return refuse(why, "argument couldn't be parsed as an octal number");
        v->num = v->num * 8 + (text.p[i] - '0');
    }
    return in_range(o, v->num, why);
}

static int parse_enum(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    for (int i = 0; o->words[i]; i++) {
        if (!slice_is(text, o->words[i])) continue;
        v->num = o->values ? i % (int)o->values : i;
        return 0;
    }
    int n = snprintf(why->text, why->cap, "argument(s) must be one of the following: ");
    for (int i = 0; o->words[i] && n < (int)why->cap; i++)
        n += snprintf(why->text + n, why->cap - (size_t)n, "%s%s", i ? ", " : "", o->words[i]);
    return -1;
}

static bool has_nul(struct slice text) { return text.n && memchr(text.p, '\0', text.n); }

static int parse_text(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    if (has_nul(text)) return refuse(why, "argument contains a NUL byte");
    if (o->max == 0 && text.n) return refuse(why, "argument must be empty");
    if (text.n > (size_t)o->max) return refuse(why, "argument is longer than %lld bytes", (long long)o->max);
    struct buf copy = {0};
    buf_add_slice(&copy, text);
    buf_add_byte(&copy, '\0');
    v->text = copy.p;
    return 0;
}

/* Words with spaces or commas between them; kept with one space. */
static int parse_list(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    struct buf out = {0};
    struct slice word;
    if (has_nul(text)) return refuse(why, "argument contains a NUL byte");
    while (config_word(&text, &word)) {
        if (out.len) buf_add_byte(&out, ' ');
        buf_add_slice(&out, word);
    }
    if (out.len == 0 && *o->fallback) {
        buf_fini(&out);
        return refuse(why, "argument must name at least one address");
    }
    buf_add_byte(&out, '\0');
    v->text = out.p;
    return 0;
}

static int parse_percents(struct slice text, struct optval *v, struct why *why)
{
    struct buf out = {0};
    struct slice word;
    while (config_word(&text, &word)) {
        double percent;
        char shortest[NUM_F64_MAX_CHARS];
        if (!num_parse_f64(word, &percent) || !(percent >= 0 && percent <= 100)) {
            buf_fini(&out);
            return refuse(why, "argument must be numbers between 0 and 100");
        }
        if (out.len) buf_add_byte(&out, ' ');
        buf_add(&out, shortest, num_format_f64(shortest, percent));
    }
    buf_add_byte(&out, '\0');
    v->text = out.p;
    return 0;
}

/* ---- "seconds changes" pairs */

static int parse_save(const struct option *o, struct slice text, struct optval *v, struct why *why)
{
    struct slice word[2];
    int64_t seconds, changes, fewest = INT64_MAX;
    while (config_word(&text, &word[0])) {
        if (!config_word(&text, &word[1]) || !num_parse_i64(word[0], &seconds) || !num_parse_i64(word[1], &changes) || seconds < 1 || seconds > o->max ||
            changes < 0)
            return refuse(why, "Invalid save parameters");
        if (changes >= fewest) continue;
        fewest = changes;
        v->num = seconds;
    }
    return 0;
}

static void format_save(int64_t seconds, struct buf *out)
{
    if (seconds) buf_printf(out, "%lld 1", (long long)seconds);
}

/* ---- keyspace events */

static const struct {
    char letter;
    unsigned class;
} events[] = {{'g', NOTIFY_GENERIC}, {'$', NOTIFY_STRING},  {'l', NOTIFY_LIST},    {'s', NOTIFY_SET},     {'h', NOTIFY_HASH},
              {'z', NOTIFY_ZSET},    {'x', NOTIFY_EXPIRED}, {'e', NOTIFY_EVICTED}, {'t', NOTIFY_STREAM},  {'d', NOTIFY_MODULE},
              {'K', NOTIFY_KEYSPACE}, {'E', NOTIFY_KEYEVENT}, {'m', NOTIFY_KEY_MISS}, {'n', NOTIFY_NEW}};

enum {
    EVENTS = sizeof events / sizeof events[0],
    /* What the letter A stands for: every kind of change, but neither misses nor new keys. */
    EVENTS_ALL = NOTIFY_GENERIC | NOTIFY_STRING | NOTIFY_LIST | NOTIFY_SET | NOTIFY_HASH | NOTIFY_ZSET | NOTIFY_EXPIRED |
                 NOTIFY_EVICTED | NOTIFY_STREAM | NOTIFY_MODULE
};

static int parse_notify(struct slice text, struct optval *v, struct why *why)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned class = text.p[i] == 'A' ? EVENTS_ALL : 0;
        for (size_t k = 0; k < EVENTS; k++) {
            if (events[k].letter == text.p[i]) class = events[k].class;
        }
        if (!class) return refuse(why, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
        v->num |= class;
    }
    return 0;
}

static void format_notify(int64_t num, struct buf *out)
{
    bool all = (num & EVENTS_ALL) == EVENTS_ALL;
    if (all) buf_add_byte(out, 'A');
    for (size_t k = 0; k < EVENTS; k++) {
        bool covered = all && (events[k].class & EVENTS_ALL);
        if (!covered && (num & events[k].class)) buf_add_byte(out, events[k].letter);
    }
}

/* ---- limits per class of clients */

static int client_class(struct slice word)
{
    if (slice_is(word, "normal")) return CONFIG_CLIENT_NORMAL;
    if (slice_is(word, "slave") || slice_is(word, "replica")) return CONFIG_CLIENT_REPLICA;
    if (slice_is(word, "pubsub")) return CONFIG_CLIENT_PUBSUB;
    return -1;
}

static int parse_client(struct slice word[4], struct optval *v, struct why *why)
{
    uint64_t hard, soft;
    int64_t seconds;
    int class = client_class(word[0]);
    if (class < 0) return refuse(why, "Invalid client class specified in buffer limit configuration.");
    if (!num_parse_bytes(word[1], &hard) || !num_parse_bytes(word[2], &soft) || !num_parse_i64(word[3], &seconds) || hard > INT64_MAX ||
        soft > INT64_MAX || seconds < 0)
        return refuse(why, "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
    v->clients[class].hard_bytes = (int64_t)hard;
    v->clients[class].soft_bytes = (int64_t)soft;
    v->clients[class].soft_seconds = seconds;
    v->classes_given |= 1u << class;
    return 0;
}

static int parse_clients(struct slice text, struct optval *v, struct why *why)
{
    struct slice word[4];
    while (config_word(&text, &word[0])) {
        for (int i = 1; i < 4; i++) {
            if (!config_word(&text, &word[i])) return refuse(why, "Wrong number of arguments in buffer limit configuration.");
        }
        if (parse_client(word, v, why)) return -1;
    }
    return v->classes_given ? 0 : refuse(why, "Wrong number of arguments in buffer limit configuration.");
}

static void format_clients(const struct optval *v, struct buf *out)
{
    static const char *const names[] = {"normal", "slave", "pubsub"};
    for (int i = 0; i < CONFIG_CLIENT_CLASSES; i++)
        buf_printf(out, "%s%s %lld %lld %lld", i ? " " : "", names[i], (long long)v->clients[i].hard_bytes,
                   (long long)v->clients[i].soft_bytes, (long long)v->clients[i].soft_seconds);
}

/* ---- all types */

int optval_parse(const struct option *o, struct slice text, struct optval *v, char *why_text, size_t cap)
{
    struct why why = {why_text, cap};
    *v = (struct optval){0};
    switch (o->type) {
    case OPTION_BOOL: return parse_bool(text, v, &why);
    case OPTION_INT: return parse_int(o, text, v, &why);
    case OPTION_BYTES: return parse_bytes(o, text, v, &why);
    case OPTION_OCTAL: return parse_octal(o, text, v, &why);
    case OPTION_ENUM: return parse_enum(o, text, v, &why);
    case OPTION_TEXT: return parse_text(o, text, v, &why);
    case OPTION_LIST: return parse_list(o, text, v, &why);
    case OPTION_PERCENTS: return parse_percents(text, v, &why);
    case OPTION_NOTIFY: return parse_notify(text, v, &why);
    case OPTION_CLIENTS: return parse_clients(text, v, &why);
    case OPTION_SAVE: return parse_save(o, text, v, &why);
    }
    return refuse(&why, "unknown type");
}

void optval_fini(struct optval *v)
{
    mem_free(v->text);
    v->text = NULL;
}

void optval_format(const struct option *o, const struct optval *v, struct buf *out)
{
    switch (o->type) {
    case OPTION_BOOL: buf_add_str(out, v->num ? "yes" : "no"); break;
    case OPTION_INT:
    case OPTION_BYTES: buf_printf(out, "%lld", (long long)v->num); break;
    case OPTION_OCTAL: buf_printf(out, "%llo", (unsigned long long)v->num); break;
    case OPTION_ENUM: buf_add_str(out, o->words[v->num]); break;
    case OPTION_TEXT:
    case OPTION_LIST:
    case OPTION_PERCENTS: buf_add_str(out, v->text); break;
    case OPTION_NOTIFY: format_notify(v->num, out); break;
    case OPTION_CLIENTS: format_clients(v, out); break;
    case OPTION_SAVE: format_save(v->num, out); break;
    }
}
