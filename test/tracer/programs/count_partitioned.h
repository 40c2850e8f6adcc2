/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of count.c: partitioned communication. A message counts as sent when its last part is ready. */
#if MPI_VERSION >= 4
int MPI_Psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Info info,
                   MPI_Request* request) {
    int result = NEXT(Psend_init)(buf, partitions, count, type, dest, tag, comm, info, request);
    pthread_mutex_lock(&lock);
    struct open_request* r = open_request(request, SEND);
    r->persistent = 1, r->active = 0, r->dest = dest, r->count = (int)count * partitions, r->type = type, r->partitions = partitions;
    pthread_mutex_unlock(&lock);
    return result;
}
int MPI_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Info info,
                   MPI_Request* request) {
    int result = NEXT(Precv_init)(buf, partitions, count, type, source, tag, comm, info, request);
    pthread_mutex_lock(&lock);
    struct open_request* r = open_request(request, source == MPI_PROC_NULL ? NOTHING : RECEIVE);
    r->persistent = 1, r->active = 0;
    pthread_mutex_unlock(&lock);
    return result;
}
static void ready(MPI_Request handle, int parts) {
    int last = 0;
    struct open_request* r;
    pthread_mutex_lock(&lock);
    for (r = requests; r < requests + used_to; r++)
        if (r->used && r->partitions && r->handle == handle) break; /* also while another thread waits for it */
    r->not_ready -= parts;
    last = r->not_ready == 0;
    pthread_mutex_unlock(&lock);
    if (last) count_send(r->dest, r->count, r->type);
}
int MPI_Pready(int partition, MPI_Request request) {
    ready(request, 1);
    return NEXT(Pready)(partition, request);
}
int MPI_Pready_range(int low, int high, MPI_Request request) {
    ready(request, high - low + 1);
    depth++;
    int result = NEXT(Pready_range)(low, high, request);
    depth--;
    return result;
}
int MPI_Pready_list(int length, int partitions[], MPI_Request request) {
    ready(request, length);
    return NEXT(Pready_list)(length, partitions, request);
}
#endif
