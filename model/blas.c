#include "model/blas.h"

#include <cblas.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void single_threaded(void)
{
    openblas_set_num_threads(1);
}

void tm_blas_init(void)
{
    pthread_once(&once, single_threaded);
}
