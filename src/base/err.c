#include "base/err.h"

#include <string.h>

const char *err_text(int code)
{
    switch (code) {
#define ERR_CASE(name, number, text) \
    case name: return text;
        ERR_TABLE(ERR_CASE)
#undef ERR_CASE
    default: break;
    }
    /* strerrordesc_np, not strerror: no buffer that threads would share. */
    const char *text = code < 0 && code > -4096 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

const char *err_name(int code)
{
    switch (code) {
#define ERR_CASE(name, number, text) \
    case name: return #name;
        ERR_TABLE(ERR_CASE)
#undef ERR_CASE
    default: break;
    }
    const char *name = code < 0 && code > -4096 ? strerrorname_np(-code) : NULL;
    return name ? name : "UNKNOWN";
}
