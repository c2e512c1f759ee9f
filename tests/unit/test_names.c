#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/keyhash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "server/names.h"

enum { THINGS = 600, KINDS = 3 };

struct thing {
    struct name name;
    char text[16];
    bool there, seen;
};

static void thing_init(struct thing *t, unsigned i, uint64_t hash_mask)
{
    int n = snprintf(t->text, sizeof t->text, "name-%u", i / KINDS); /* each text three times, as names of different kinds */
    t->name.text = slice_of(t->text, (size_t)n);
    t->name.kind = (uint8_t)(i % KINDS);
    t->name.hash = keyhash(t->name.text, t->name.kind) & hash_mask;
}

static void check_walk(const struct names *names, struct thing *things)
{
    size_t walked = 0;
    for (struct name *n = names_next(names, NULL); n; n = names_next(names, n)) {
        struct thing *t = (struct thing *)n;
        assert_true(t->there);
        assert_false(t->seen);
        t->seen = true;
        walked++;
    }
    assert_int_equal(walked, names->n);
    for (unsigned i = 0; i < THINGS; i++) things[i].seen = false;
}

/* A random walk of adding and removing against an array of flags. */
static void walk(uint64_t hash_mask, uint64_t seed)
{
    struct thing *things = mem_zalloc(THINGS * sizeof *things);
    for (unsigned i = 0; i < THINGS; i++) thing_init(&things[i], i, hash_mask);
    struct names names = {0};
    struct rng rng;
    rng_init(&rng, seed);
    size_t n = 0;
    for (int step = 0; step < 20000; step++) {
        unsigned wanted = step / 5000 % 2 ? THINGS / 20 : THINGS; /* fills, then nearly empties */
        struct thing *t = &things[rng_below(&rng, THINGS)];
        struct name *found = names_find(&names, t->name.hash, t->name.kind, t->name.text);
        assert_ptr_equal(found, t->there ? &t->name : NULL);
        if (t->there && (n > wanted || rng_below(&rng, 3) == 0)) {
            names_remove(&names, &t->name);
            t->there = false;
            n--;
        } else if (!t->there && n < wanted) {
            names_add(&names, &t->name);
            t->there = true;
            n++;
        }
        assert_int_equal(names.n, n);
        if (step % 500 == 0) check_walk(&names, things);
    }
    names_fini(&names);
    mem_free(things);
}

static void a_table_of_names_behaves_like_an_array_of_flags(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++) walk(UINT64_MAX, seed);
}

static void names_whose_hashes_collide_are_told_apart(void **state)
{
    walk(7, 1);
    walk(0, 2);
}

static void an_emptied_table_gives_its_memory_back(void **state)
{
    struct thing *things = mem_zalloc(THINGS * sizeof *things);
    struct names names = {0};
    for (unsigned i = 0; i < THINGS; i++) {
        thing_init(&things[i], i, UINT64_MAX);
        names_add(&names, &things[i].name);
    }
    size_t full = names.cap;
    for (unsigned i = 0; i < THINGS; i++) names_remove(&names, &things[i].name);
    assert_true(full >= THINGS);
    assert_true(names.cap <= 16);
    names_fini(&names);
    mem_free(things);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_of_names_behaves_like_an_array_of_flags),
        cmocka_unit_test(names_whose_hashes_collide_are_told_apart),
        cmocka_unit_test(an_emptied_table_gives_its_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
