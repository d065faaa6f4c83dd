/* SPDX-License-Identifier: Apache-2.0
 *
 * What C cannot do by itself: memory that runs out, a callback that throws. failing.cc replaces the
 * program's operator new, which the library uses, too.
 */
#ifndef TENURE_TESTS_CAPI_FAILING_H_
#define TENURE_TESTS_CAPI_FAILING_H_

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th allocation of this thread from now on fails, once; 0: none does. */
void fail_allocation(long n);
/* Throws what C++ programs throw. */
void throw_something(void);

#ifdef __cplusplus
}
#endif

#endif /* TENURE_TESTS_CAPI_FAILING_H_ */
