/* Runs the conformance tests of CEL from the file that tests/interop/cel-conformance.js writes, whose lines it explains.
 *     cel_conformance FILE      ends with "N of M tests pass, ..."; exit code 0 if all do and there are some */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cel/cel.h"

enum { VARIABLES_MAX = 16 };

struct test {
    char name[256];
    struct buf expr;
    char container[256];
    unsigned flags;
    struct cel_variable variables[VARIABLES_MAX];
    struct cel_value values[VARIABLES_MAX];
    size_t count;
    bool has_value, wants_error, refused;
    struct cel_value value;
    char type[1024];
};

struct tally {
    unsigned tests, passed, types, types_agree, refusals, refusals_agree;
};

static _Noreturn void broken(const char *what)
{
    fprintf(stderr, "test file: %s\n", what);
    exit(2);
}

/* ---- values; their memory is never given back */

struct words {
    char *next;
};

static char *word(struct words *w)
{
    char *p = strsep(&w->next, " ");
    if (!p) broken("too few words");
    return p;
}

static struct slice unhex(const char *text)
{
    size_t n = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    char *out = mem_alloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) broken("bad hex");
        out[i] = (char)byte;
    }
    return slice_of(out, n);
}

static struct cel_value read_value(struct words *w)
{
    const char *kind = word(w);
    struct cel_value v = {.kind = CEL_NULL};
    if (strcmp(kind, "bool") == 0) v = (struct cel_value){.kind = CEL_BOOL, .boolean = *word(w) == '1'};
    if (strcmp(kind, "int") == 0) v = (struct cel_value){.kind = CEL_INT, .integer = strtoll(word(w), NULL, 10)};
    if (strcmp(kind, "uint") == 0) v = (struct cel_value){.kind = CEL_UINT, .natural = strtoull(word(w), NULL, 10)};
    if (strcmp(kind, "string") == 0) v = (struct cel_value){.kind = CEL_STRING, .text = unhex(word(w))};
    if (strcmp(kind, "bytes") == 0) v = (struct cel_value){.kind = CEL_BYTES, .text = unhex(word(w))};
    if (strcmp(kind, "type") == 0) v = (struct cel_value){.kind = CEL_TYPE, .text = slice_str(mem_strdup(word(w)))};
    if (strcmp(kind, "double") == 0) {
        uint64_t bits = strtoull(word(w), NULL, 16);
        v.kind = CEL_DOUBLE;
        memcpy(&v.real, &bits, sizeof bits);
    }
    if (strcmp(kind, "timestamp") == 0 || strcmp(kind, "duration") == 0) {
        v.kind = *kind == 't' ? CEL_TIMESTAMP : CEL_DURATION;
        v.time.seconds = strtoll(word(w), NULL, 10);
        v.time.nanos = (int32_t)strtol(word(w), NULL, 10);
    }
    if (strcmp(kind, "list") == 0) {
        size_t n = strtoul(word(w), NULL, 10);
        struct cel_value *items = mem_zalloc((n + 1) * sizeof *items);
        for (size_t i = 0; i < n; i++) items[i] = read_value(w);
        v = (struct cel_value){.kind = CEL_LIST, .list = {items, n}};
    }
    if (strcmp(kind, "map") == 0) {
        size_t n = strtoul(word(w), NULL, 10);
        struct cel_entry *entries = mem_zalloc((n + 1) * sizeof *entries);
        for (size_t i = 0; i < n; i++) {
            entries[i].key = read_value(w);
            entries[i].value = read_value(w);
        }
        v = (struct cel_value){.kind = CEL_MAP, .map = {entries, n, NULL}};
    }
    if (v.kind == CEL_NULL && strcmp(kind, "null") != 0) broken("no such kind of value");
    return v;
}

/* Equal and of the same kind: 1 is not the answer where 1u is asked for. NaN is itself here. */
static bool same(const struct cel_value *a, const struct cel_value *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == CEL_DOUBLE) return a->real == b->real || (a->real != a->real && b->real != b->real);
    if (a->kind != CEL_LIST) return cel_value_equal(a, b);
    if (a->list.count != b->list.count) return false;
    for (size_t i = 0; i < a->list.count; i++) {
        if (!same(&a->list.items[i], &b->list.items[i])) return false;
    }
    return true;
}

/* ---- one test */

static bool evaluate(const struct test *t, const struct cel_program *p, struct buf *why)
{
    struct scratch s;
    struct cel_value result;
    struct cel_error error;
    scratch_init(&s);
    bool ok;
    if (cel_eval(p, t->values, &s, &result, &error) != 0) {
        ok = t->wants_error;
        if (!ok) buf_printf(why, "%s", error.message);
    } else {
        ok = t->has_value && same(&result, &t->value);
        if (!ok) {
            buf_add_str(why, "gives ");
            cel_value_print(&result, why);
            buf_add_str(why, ", not ");
            if (t->has_value) cel_value_print(&t->value, why);
            else buf_add_str(why, "an error");
        }
    }
    scratch_fini(&s);
    return ok;
}

static struct cel_program *compile(const struct test *t, unsigned flags, struct cel_error *error)
{
    struct cel_env env = {.variables = t->variables, .count = t->count, .container = slice_str(t->container), .flags = flags};
    return cel_compile(&env, buf_slice(&t->expr), error);
}

static void run(const struct test *t, struct tally *tally)
{
    struct buf why = {0};
    struct cel_error error;
    struct cel_program *p = compile(t, t->flags, &error);
    bool ok = p, runs = t->has_value || t->wants_error;
    if (!p) buf_printf(&why, "%u:%u: %s", error.line, error.column, error.message);
    else if (runs) ok = evaluate(t, p, &why);
    cel_program_free(p);

    p = compile(t, t->flags & ~(unsigned)CEL_UNCHECKED, &error);
    if (t->type[0]) {
        tally->types++;
        bool agrees = p && strcmp(cel_program_type(p), t->type) == 0;
        tally->types_agree += agrees;
        if (!agrees) printf("%s: has type %s, not %s\n", t->name, p ? cel_program_type(p) : error.message, t->type);
    }
    if (t->refused) {
        tally->refusals++;
        tally->refusals_agree += !p;
        if (p) printf("%s: is accepted by the checker\n", t->name);
    }
    cel_program_free(p);
    tally->tests++;
    tally->passed += ok;
    if (!ok) printf("%s: %.*s: %.*s\n", t->name, (int)t->expr.len, t->expr.p, (int)why.len, why.p);
    buf_fini(&why);
}

/* ---- the file */

static void set_value(struct test *t, const char *name, struct cel_value v)
{
    for (size_t i = 0; i < t->count; i++) {
        if (slice_eq(t->variables[i].name, slice_str(name))) t->values[i] = v;
    }
}

static void read_line(struct test *t, char *line)
{
    struct words w = {line};
    const char *key = word(&w);
    const char *rest = w.next ? w.next : "";
    if (strcmp(key, "test") == 0) {
        *t = (struct test){0};
        snprintf(t->name, sizeof t->name, "%s", rest);
    } else if (strcmp(key, "expr") == 0) {
        buf_add_slice(&t->expr, unhex(rest));
    } else if (strcmp(key, "container") == 0) {
        snprintf(t->container, sizeof t->container, "%s", rest);
    } else if (strcmp(key, "flag") == 0) {
        t->flags |= strcmp(rest, "unchecked") == 0 ? CEL_UNCHECKED : CEL_EXTENSIONS;
    } else if (strcmp(key, "var") == 0) {
        if (t->count == VARIABLES_MAX) broken("too many variables");
        struct slice name = slice_str(mem_strdup(word(&w)));
        t->variables[t->count++] = (struct cel_variable){name, slice_str(mem_strdup(w.next))};
    } else if (strcmp(key, "bind") == 0) {
        const char *name = word(&w);
        set_value(t, name, read_value(&w));
    } else if (strcmp(key, "value") == 0) {
        t->has_value = true;
        t->value = read_value(&w);
    } else if (strcmp(key, "type") == 0) {
        snprintf(t->type, sizeof t->type, "%s", rest);
    } else if (strcmp(key, "error") == 0) {
        t->wants_error = true;
    } else if (strcmp(key, "refused") == 0) {
        t->refused = true;
    } else {
        broken("no such line");
    }
}

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!f) {
        fprintf(stderr, "usage: cel_conformance FILE\n");
        return 2;
    }
    struct tally tally = {0};
    struct test t = {0};
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        if (line[n - 1] == '\n') line[n - 1] = '\0';
        if (line[0]) read_line(&t, line);
        else run(&t, &tally), buf_fini(&t.expr);
    }
    free(line);
    fclose(f);
    printf("%u of %u tests pass, %u of %u types agree with cel-go's, %u of %u refusals too\n", tally.passed, tally.tests, tally.types_agree, tally.types, tally.refusals_agree,
           tally.refusals);
    return tally.tests > 0 && tally.passed == tally.tests && tally.types_agree == tally.types && tally.refusals_agree == tally.refusals ? 0 : 1;
}
