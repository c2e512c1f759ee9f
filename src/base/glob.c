#include "base/glob.h"

#include <stdint.h>

static unsigned char fold(char c, bool ignore_case)
{
    unsigned char u = (unsigned char)c;
    return ignore_case && u >= 'A' && u <= 'Z' ? (unsigned char)(u + 32) : u;
}

/* One element of a pattern (anything but '*') against one byte. *at is behind the element afterwards.
 * As in Redis: a class that is never closed ends with the pattern, "z-a" means "a-z", a last backslash is itself. */
static bool class_match(struct slice p, size_t *at, unsigned char c, bool ignore_case)
{
    size_t i = *at + 1;
    bool negated = i < p.n && p.p[i] == '^', hit = false;
    if (negated) i++;
    for (; i < p.n && p.p[i] != ']'; i++) {
        if (p.p[i] == '\\' && i + 1 < p.n) {
            i++;
            hit |= fold(p.p[i], ignore_case) == c;
        } else if (i + 2 < p.n && p.p[i + 1] == '-') {
            unsigned char lo = fold(p.p[i], ignore_case), hi = fold(p.p[i + 2], ignore_case);
            if (lo > hi) {
                unsigned char swap = lo;
                lo = hi;
                hi = swap;
            }
            hit |= c >= lo && c <= hi;
            i += 2;
        } else {
            hit |= fold(p.p[i], ignore_case) == c;
        }
    }
    *at = i < p.n ? i + 1 : p.n;
    return hit != negated;
}

static bool element_match(struct slice p, size_t *at, char byte, bool ignore_case)
{
    unsigned char c = fold(byte, ignore_case);
    size_t i = *at;
    switch (p.p[i]) {
    case '?': *at = i + 1; return true;
    case '[': return class_match(p, at, c, ignore_case);
    case '\\':
        if (i + 1 < p.n) i++;
        break;
    default: break;
    }
    *at = i + 1;
    return fold(p.p[i], ignore_case) == c;
}

/* Every element but '*' takes exactly one byte. So when an element fails, only the last star needs to give way: what an earlier
 * star could reach by taking more, the last one reaches too. That bounds the work by pattern times text. */
bool glob_match(struct slice p, struct slice t, bool ignore_case)
{
    size_t pi = 0, ti = 0;
    size_t star = SIZE_MAX, star_text = 0; /* behind the last star, and the text it has not taken */
    while (ti < t.n) {
        if (pi < p.n && p.p[pi] == '*') {
            while (pi < p.n && p.p[pi] == '*') pi++;
            if (pi == p.n) return true;
            star = pi;
            star_text = ti;
            continue;
        }
        if (pi < p.n && element_match(p, &pi, t.p[ti], ignore_case)) {
            ti++;
            continue;
        }
        if (star == SIZE_MAX) return false;
        pi = star;
        ti = ++star_text;
    }
    while (pi < p.n && p.p[pi] == '*') pi++;
    return pi == p.n;
}
