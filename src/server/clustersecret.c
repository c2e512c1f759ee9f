#include "server/clustersecret.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "io/wholefile.h"
#include "server/config.h"

enum { FILE_MAX_BYTES = 64 * 1024 };

static int refuse(struct buf *why, const char *option, const char *text)
{
    buf_printf(why, "%s: %s", option, text);
    return -1;
}

static bool is_printable(struct slice word)
{
    for (size_t i = 0; i < word.n; i++)
        if (word.p[i] <= ' ' || word.p[i] >= 0x7f) return false;
    return true;
}

static int add_words(struct linksecret *out, struct slice words, const char *option, struct buf *why)
{
    struct slice word;
    while (config_word(&words, &word)) {
        if (!is_printable(word)) return refuse(why, option, "a secret has printable characters only");
        if (word.n < CLUSTERSECRET_MIN) return refuse(why, option, "a secret has 16 characters or more");
        if (!linksecret_add(out, word)) return refuse(why, option, "there are more than four secrets");
    }
    return 0;
}

static int add_file(struct linksecret *out, const char *path, struct buf *why)
{
    static const char option[] = "cluster-secret-file";
    struct buf text = {0};
    int rc = wholefile_read(path, FILE_MAX_BYTES, &text);
    if (rc) buf_printf(why, "%s: %.200s: cannot read: %s", option, path, strerror(-rc));
    else rc = add_words(out, buf_slice(&text), option, why);
    if (rc == 0 && out->n == 0) rc = refuse(why, option, "there is no secret in the file");
    if (text.p) OPENSSL_cleanse(text.p, text.cap);
    buf_fini(&text);
    return rc ? -1 : 0;
}

int clustersecret_read(struct linksecret *out, const char *words, const char *path, struct buf *why)
{
    *out = (struct linksecret){0};
    if (*words && *path) return refuse(why, "cluster-secret", "not both cluster-secret and cluster-secret-file");
    return *path ? add_file(out, path, why) : add_words(out, slice_str(words), "cluster-secret", why);
}

/* ---- joining */

bool clustersecret_prove(const struct linksecret *s, const struct slice *words, uint32_t n, char out[CLUSTERSECRET_PROOF + 1])
{
    uint8_t proof[WIRE_PROOF_BYTES];
    if (!s->n) return false;
    linksecret_prove_words(s, words, n, proof);
    for (size_t i = 0; i < sizeof proof; i++) snprintf(out + 2 * i, 3, "%02x", proof[i]);
    return true;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct slice text, uint8_t out[WIRE_PROOF_BYTES])
{
    if (text.n != CLUSTERSECRET_PROOF) return false;
    for (size_t i = 0; i < WIRE_PROOF_BYTES; i++) {
        int high = digit(text.p[2 * i]), low = digit(text.p[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

const char *clustersecret_check(const struct linksecret *s, const struct slice *words, uint32_t n, struct slice proof)
{
    uint8_t bytes[WIRE_PROOF_BYTES];
    if (!s->n) return proof.n ? "the node that is to join has a cluster-secret, and this cluster has none" : NULL;
    if (!proof.n) return "this cluster has a cluster-secret, and the node that is to join has none";
    if (!read_hex(proof, bytes) || !linksecret_check_words(s, words, n, bytes)) return "the node that is to join has another cluster-secret than this cluster";
    return NULL;
}
