/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest test harness that C99 needs: TEST(name) { ... EXPECT(condition); ... }. The program
 * runs the tests named on its command line, all of them without any; exit status 1 if one failed.
 */
#ifndef TENURE_TESTS_CAPI_HARNESS_H_
#define TENURE_TESTS_CAPI_HARNESS_H_

#include <stdio.h>
#include <string.h>

#include "tenure/tenure.h"

static int harness_failures;

#define EXPECT(condition)                                                              \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, \
              tenure_last_error_message());                                            \
      ++harness_failures;                                                              \
    }                                                                                  \
  } while (0)

/* `call` answers `status`. */
#define EXPECT_STATUS(status, call)                                                            \
  do {                                                                                         \
    const tenure_status got_ = (call);                                                         \
    if (got_ != (status)) {                                                                    \
      fprintf(stderr, "%s:%d: %s\n  is %s, expected %s; last error: %s\n", __FILE__, __LINE__, \
              #call, tenure_status_name(got_), tenure_status_name(status),                     \
              tenure_last_error_message());                                                    \
      ++harness_failures;                                                                      \
    }                                                                                          \
  } while (0)
#define EXPECT_OK(call) EXPECT_STATUS(TENURE_OK, call)

typedef struct harness_test {
  const char* name;
  void (*run)(void);
} harness_test;

#define TEST(name) static void test_##name(void)
#define ENTRY(name) \
  { #name, test_##name }

static int harness_main(int argc, char** argv, const harness_test* tests, size_t count) {
  size_t i;
  int ran = 0;
  for (i = 0; i < count; ++i) {
    int chosen = argc < 2, a;
    for (a = 1; a < argc; ++a) chosen = chosen || strcmp(argv[a], tests[i].name) == 0;
    if (!chosen) continue;
    tests[i].run();
    ++ran;
  }
  if (ran == 0) fprintf(stderr, "no such test\n");
  return ran == 0 || harness_failures > 0;
}

#endif /* TENURE_TESTS_CAPI_HARNESS_H_ */
