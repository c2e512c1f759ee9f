/* Glob patterns: Redis's corner cases, a recursive twin, and hostile patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/glob.h"
#include "base/rng.h"

static bool match(const char *p, const char *t) { return glob_match(slice_str(p), slice_str(t), false); }

static void patterns_mean_what_redis_says(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool hit;
    } cases[] = {{"*", "", true},           {"*", "anything", true},     {"", "", true},           {"", "a", false},
                 {"h?llo", "hello", true},  {"h?llo", "hllo", false},    {"h*llo", "heeello", true}, {"h*llo", "hllo", true},
                 {"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
                 {"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true}, {"h[a-c]llo", "hdllo", false}, {"[", "[", false},
                 {"[a", "a", true},         {"[]", "a", false},          {"[^]", "a", true},       {"\\*", "*", true},
                 {"\\*", "a", false},       {"a\\", "a\\", true},        {"[\\]]", "]", true},     {"[a\\-z]", "-", true},
                 {"[a-]", "`", true},      {"a*b*c", "aXbYc", true},    {"a*b*c", "aXbY", false}, {"***a", "bba", true},
                 {"*a", "aab", false},      {"A*", "abc", false},        {"?", "", false},         {"a?*", "ab", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (match(cases[i].pattern, cases[i].text) != cases[i].hit) fail_msg("%s on %s", cases[i].pattern, cases[i].text);
    }
}

static void case_is_ignored_only_when_asked(void **state)
{
    assert_true(glob_match(SLICE("HE[A-Z]lo"), SLICE("heLLO"), true));
    assert_false(glob_match(SLICE("HE[A-Z]lo"), SLICE("heLLO"), false));
}

static void bytes_beyond_text_are_matched(void **state)
{
    assert_true(glob_match(SLICE("a*\0z"), slice_of("a\xff\x80\0z", 5), false));
    assert_true(glob_match(SLICE("[\x80-\xff]"), SLICE("\xc3"), false));
}

/* The obvious recursion over literals, ? and *. */
static bool twin(const char *p, const char *t)
{
    if (*p == 0) return *t == 0;
    if (*p == '*') return twin(p + 1, t) || (*t && twin(p, t + 1));
    return *t && (*p == '?' || *p == *t) && twin(p + 1, t + 1);
}

static void random_patterns_agree_with_the_recursive_twin(void **state)
{
    struct rng rng;
    rng_init(&rng, 3);
    int hits = 0;
    for (int i = 0; i < 100000; i++) {
        char p[9] = {0}, t[11] = {0};
        for (uint64_t j = rng_below(&rng, sizeof p); j-- > 0;) p[j] = "ab?**"[rng_below(&rng, 5)];
        for (uint64_t j = rng_below(&rng, sizeof t); j-- > 0;) t[j] = "ab"[rng_below(&rng, 2)];
        bool hit = match(p, t);
        assert_int_equal(hit, twin(p, t));
        hits += hit;
    }
    assert_true(hits > 1000);
}

static void a_hostile_pattern_ends(void **state)
{
    char pattern[2001], text[20001];
    for (size_t i = 0; i < 2000; i++) pattern[i] = i % 2 ? 'a' : '*';
    pattern[2000] = 'b';
    memset(text, 'a', sizeof text);
    assert_false(glob_match(slice_of(pattern, sizeof pattern), slice_of(text, sizeof text), false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_mean_what_redis_says),
        cmocka_unit_test(case_is_ignored_only_when_asked),
        cmocka_unit_test(bytes_beyond_text_are_matched),
        cmocka_unit_test(random_patterns_agree_with_the_recursive_twin),
        cmocka_unit_test(a_hostile_pattern_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
