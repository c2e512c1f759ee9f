/* Patterns of matches(): RE2's syntax and nothing more, and no pattern that hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cel/regex.h"

static int match(const char *pattern, const char *text)
{
    struct scratch s;
    scratch_init(&s);
    const char *error;
    void *regex = regex_compile(&s, slice_str(pattern), &error);
    if (!regex) fail_msg("%s: %s", pattern, error);
    int found = regex_match(regex, &s, slice_str(text));
    scratch_fini(&s);
    return found;
}

static void patterns_match_as_in_re2(void **state)
{
    static const struct {
        const char *pattern, *text;
        int found;
    } cases[] = {
        {"", "", 1},
        {"b", "abc", 1},
        {"^b", "abc", 0},
        {"a$", "a\n", 0}, /* $ is the end of the text, not before its last newline */
        {"(?m)^b$", "a\nb\nc", 1},
        {"a.c", "a\nc", 0},
        {"(?s)a.c", "a\nc", 1},
        {"(?i)CAF\xc3\x89", "caf\xc3\xa9", 1},
        {"^.$", "\xf0\x9f\x98\x80", 1},
        {"^\\s$", "\v", 0}, /* RE2's \s is without the vertical tab */
        {"^[\\s]$", " ", 1},
        {"^\\S$", "\v", 1},
        {"^\\v$", "\v", 1},
        {"^\\v$", "\n", 0},
        {"^\\d+$", "\xd9\xa3", 0}, /* ASCII digits only */
        {"\\bb\\b", "a b c", 1},
        {"\\p{Greek}+", "\xce\xb1", 1},
        {"\\pL", "1", 0},
        {"^[[:alpha:]_]+$", "ab_c", 1},
        {"^[]a]+$", "]a", 1},
        {"^[^]]+$", "a]", 0},
        {"\\Qa.b\\E", "a.b", 1},
        {"\\Qa.b\\E", "axb", 0},
        {"\\Qa.b", "a.b", 1},
        {"a{2}b{,3}", "aab{,3}", 1}, /* a brace that is no repetition is a brace */
        {"x{", "x{", 1},
        {"^(?P<n>a+?)(?<m>b*)(?:c|d)$", "aabd", 1},
        {"\\x41\\x{1F600}", "A\xf0\x9f\x98\x80", 1},
        {"\\101\\07", "A\a", 1},
        {"(|a)b", "b", 1},
        {"(?U)a+", "aa", 1},
        {"\\Aa\\z", "a", 1},
        {"\\.\\*\\-", ".*-", 1},
        {"a", "\xff a", 1}, /* what is no UTF-8 matches nothing, and does no harm */
        {"^.*$", "\xff", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (match(cases[i].pattern, cases[i].text) != cases[i].found) fail_msg("%s on %s", cases[i].pattern, cases[i].text);
    }
}

static void what_re2_does_not_have_is_refused(void **state)
{
    static const char *const bad[] = {"(a)\\1", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "a++", "a*+", "a?+", "a{2}+", "a**", "a{2}{3}", "a+?+", "(?R)", "(?1)", "(?P>n)", "(?P=n)", "(?&n)", "(?(1)a)", "(?#c)",
                                      "(*ACCEPT)", "(?C1)", "\\K", "\\G", "\\Z", "\\X", "\\R", "\\h", "\\N", "\\C", "\\k<n>", "\\g1", "\\cA", "\\e", "a{1001}", "a{1,1001}", "(", ")", "[a", "[z-a]", "a\\", "*a",
                                      "\\p{Nope}", "\\u0041", "(?x)a", "(?|a)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct scratch s;
        scratch_init(&s);
        const char *error = NULL;
        if (regex_compile(&s, slice_str(bad[i]), &error)) fail_msg("%s is accepted", bad[i]);
        assert_true(error && *error);
        scratch_fini(&s);
    }
}

static void a_pattern_that_backtracks_too_much_is_an_error(void **state)
{
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    assert_int_equal(match("^(a|aa)+$", text), -1);
    assert_int_equal(match("^(([a-z])+.)+[A-Z]([a-z])+$", text), -1);
}

static void patterns_and_matches_stay_within_the_memory_they_are_given(void **state)
{
    struct scratch s;
    scratch_init(&s);
    const char *error;
    s.bytes_max = 100;
    assert_null(regex_compile(&s, SLICE("a(b|c)*d"), &error));
    assert_string_equal(error, "takes too much memory");
    scratch_fini(&s);

    scratch_init(&s);
    void *regex = regex_compile(&s, SLICE("a(b|c)*d"), &error);
    assert_non_null(regex);
    s.bytes_max = s.used_bytes + 10;
    assert_int_equal(regex_match(regex, &s, SLICE("abcd")), -1);
    scratch_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_re2),
        cmocka_unit_test(what_re2_does_not_have_is_refused),
        cmocka_unit_test(a_pattern_that_backtracks_too_much_is_an_error),
        cmocka_unit_test(patterns_and_matches_stay_within_the_memory_they_are_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
