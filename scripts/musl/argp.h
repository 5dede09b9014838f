/* Declarations that elfutils' support library compiles against where the C library has no argp (musl). Only libelf is linked into
   bentpipe, which calls none of them. */
#ifndef BENTPIPE_ARGP_H
#define BENTPIPE_ARGP_H

#include <errno.h>
#include <stdio.h>

typedef int error_t;

struct argp_state {
  const char *name;
  void *input;
};
struct argp_option {
  const char *name;
  int key;
  const char *arg;
  int flags;
  const char *doc;
  int group;
};
typedef error_t (*argp_parser_t)(int key, char *arg, struct argp_state *state);
struct argp {
  const struct argp_option *options;
  argp_parser_t parser;
  const char *args_doc;
  const char *doc;
  const void *children;
  char *(*help_filter)(int key, const char *text, void *input);
  const char *argp_domain;
};

enum { OPTION_ARG_OPTIONAL = 1, OPTION_HIDDEN = 2, ARGP_ERR_UNKNOWN = E2BIG, ARGP_HELP_SEE = 4 };

void argp_error(const struct argp_state *state, const char *format, ...);
void argp_help(const struct argp *argp, FILE *stream, unsigned flags, char *name);
void argp_usage(const struct argp_state *state);

#endif
