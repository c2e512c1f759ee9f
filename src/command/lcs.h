/* LCS: the longest common subsequence of two strings. */
#pragma once

struct exec;

void lcs_command(struct exec *x);
