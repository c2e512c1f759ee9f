/* Random expressions against a naive twin that computes the value while it writes the text, in 128 bits and with the rules of the specification written out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "cel/cel.h"

struct twin {
    bool error;
    int64_t value; /* of a condition: 0 or 1 */
};

struct writer {
    struct rng rng;
    struct buf text;
    int64_t x, y;
};

static struct twin write_int(struct writer *w, int depth);
static struct twin write_bool(struct writer *w, int depth);

static struct twin in_range(__int128 n)
{
    return n < INT64_MIN || n > INT64_MAX ? (struct twin){true, 0} : (struct twin){false, (int64_t)n};
}

static struct twin write_literal(struct writer *w)
{
    static const int64_t edges[] = {0, 1, -1, 2, 7, INT64_MAX, INT64_MIN, INT64_MAX - 1, 3037000500, -3037000500};
    int64_t n = rng_below(&w->rng, 2) ? edges[rng_below(&w->rng, sizeof edges / sizeof *edges)] : (int64_t)rng_below(&w->rng, 200) - 100;
    buf_printf(&w->text, "%lld", (long long)n);
    return (struct twin){false, n};
}

static struct twin apply(char op, struct twin a, struct twin b)
{
    if (a.error || b.error) return (struct twin){true, 0};
    switch (op) {
    case '+': return in_range((__int128)a.value + b.value);
    case '-': return in_range((__int128)a.value - b.value);
    case '*': return in_range((__int128)a.value * b.value);
    default:
        if (b.value == 0 || (a.value == INT64_MIN && b.value == -1)) return (struct twin){true, 0};
        return (struct twin){false, op == '/' ? a.value / b.value : a.value % b.value};
    }
}

static struct twin write_cond(struct writer *w, int depth)
{
    buf_add_str(&w->text, "(");
    struct twin c = write_bool(w, depth);
    buf_add_str(&w->text, " ? ");
    struct twin yes = write_int(w, depth);
    buf_add_str(&w->text, " : ");
    struct twin no = write_int(w, depth);
    buf_add_str(&w->text, ")");
    return c.error ? c : c.value ? yes : no;
}

/* [a, b, c][i]: all elements are computed, whichever is taken. */
static struct twin write_index(struct writer *w, int depth)
{
    struct twin items[3];
    bool error = false;
    for (int i = 0; i < 3; i++) {
        buf_add_str(&w->text, i ? ", " : "[");
        items[i] = write_int(w, depth);
        error = error || items[i].error;
    }
    buf_add_str(&w->text, "][");
    struct twin at = write_int(w, depth);
    buf_add_str(&w->text, "]");
    if (error || at.error || at.value < 0 || at.value > 2) return (struct twin){true, 0};
    return items[at.value];
}

static struct twin write_int(struct writer *w, int depth)
{
    unsigned choice = depth == 0 ? (unsigned)rng_below(&w->rng, 3) : (unsigned)rng_below(&w->rng, 12);
    if (choice == 0) return write_literal(w);
    if (choice <= 2) {
        buf_add_str(&w->text, choice == 1 ? "x" : "y");
        return (struct twin){false, choice == 1 ? w->x : w->y};
    }
    if (choice == 3) return write_cond(w, depth - 1);
    if (choice == 4) return write_index(w, depth - 1);
    if (choice == 5) {
        buf_add_str(&w->text, "-(");
        struct twin a = write_int(w, depth - 1);
        buf_add_str(&w->text, ")");
        return apply('-', (struct twin){false, 0}, a);
    }
    char op = "+-*/%"[rng_below(&w->rng, 5)];
    buf_add_str(&w->text, "(");
    struct twin a = write_int(w, depth - 1);
    buf_printf(&w->text, " %c ", op);
    struct twin b = write_int(w, depth - 1);
    buf_add_str(&w->text, ")");
    return apply(op, a, b);
}

static struct twin write_comparison(struct writer *w, int depth)
{
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    unsigned op = (unsigned)rng_below(&w->rng, 6);
    buf_add_str(&w->text, "(");
    struct twin a = write_int(w, depth);
    buf_printf(&w->text, " %s ", ops[op]);
    struct twin b = write_int(w, depth);
    buf_add_str(&w->text, ")");
    if (a.error || b.error) return (struct twin){true, 0};
    bool results[] = {a.value < b.value, a.value <= b.value, a.value > b.value, a.value >= b.value, a.value == b.value, a.value != b.value};
    return (struct twin){false, results[op]};
}

/* One side that decides is enough, whatever became of the other. */
static struct twin write_logic(struct writer *w, int depth, bool is_or)
{
    buf_add_str(&w->text, "(");
    struct twin a = write_bool(w, depth);
    buf_add_str(&w->text, is_or ? " || " : " && ");
    struct twin b = write_bool(w, depth);
    buf_add_str(&w->text, ")");
    if ((!a.error && a.value == is_or) || (!b.error && b.value == is_or)) return (struct twin){false, is_or};
    return a.error || b.error ? (struct twin){true, 0} : (struct twin){false, !is_or};
}

static struct twin write_bool(struct writer *w, int depth)
{
    unsigned choice = depth == 0 ? 0 : (unsigned)rng_below(&w->rng, 4);
    if (choice == 0) return write_comparison(w, depth ? depth - 1 : 0);
    if (choice < 3) return write_logic(w, depth - 1, choice == 1);
    buf_add_str(&w->text, "!");
    struct twin a = write_comparison(w, depth - 1);
    a.value = !a.value;
    return a;
}

static void compare(struct writer *w, struct twin wanted, enum cel_kind kind, struct scratch *s, unsigned flags)
{
    static const struct cel_variable variables[] = {{SLICE("x"), SLICE("int")}, {SLICE("y"), SLICE("int")}};
    struct cel_env env = {.variables = variables, .count = 2, .flags = flags};
    struct cel_value values[] = {{.kind = CEL_INT, .integer = w->x}, {.kind = CEL_INT, .integer = w->y}}, result;
    struct cel_error error;
    struct cel_program *p = cel_compile(&env, buf_slice(&w->text), &error);
    if (!p) fail_msg("%.*s: %s", (int)w->text.len, w->text.p, error.message);
    assert_true(flags || cel_program_kind(p) == kind);
    int code = cel_eval(p, values, s, &result, &error);
    int64_t got = code ? 0 : kind == CEL_BOOL ? result.boolean : result.integer;
    if ((code != 0) != wanted.error || (code == 0 && (result.kind != kind || got != wanted.value))) {
        fail_msg("%.*s with x = %lld, y = %lld gives %lld (%s), not %lld", (int)w->text.len, w->text.p, (long long)w->x, (long long)w->y, (long long)got, code ? error.message : "",
                 (long long)wanted.value);
    }
    cel_program_free(p);
}

static void random_expressions_give_what_the_twin_says(void **state)
{
    struct writer w = {.text = {0}};
    rng_init(&w.rng, 0x5eed);
    struct scratch s;
    scratch_init(&s);
    unsigned errors = 0, values = 0;
    for (int i = 0; i < 20000; i++) {
        w.text.len = 0;
        w.x = (int64_t)rng_below(&w.rng, 20) - 10;
        w.y = rng_below(&w.rng, 4) ? (int64_t)rng_below(&w.rng, 5) : (int64_t)rng_u64(&w.rng);
        bool boolean = rng_below(&w.rng, 2);
        struct twin wanted = boolean ? write_bool(&w, 4) : write_int(&w, 4);
        compare(&w, wanted, boolean ? CEL_BOOL : CEL_INT, &s, i % 4 == 0 ? CEL_UNCHECKED : 0);
        if (wanted.error) errors++;
        else values++;
    }
    assert_true(errors > 1000 && values > 1000);
    scratch_fini(&s);
    buf_fini(&w.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_expressions_give_what_the_twin_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
