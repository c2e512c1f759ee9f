#include "cluster/raftlib.h"

const char *raftlib_version(char text[RAFTLIB_TEXT_MAX])
{
    unsigned number = (unsigned)raft_version_number();
    snprintf(text, RAFTLIB_TEXT_MAX, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
    return text;
}
