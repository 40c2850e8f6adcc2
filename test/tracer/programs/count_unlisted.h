/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of count.c: collectives that OTF2 has no operation for, as requests: counted when they complete. */
#define UNLISTED(kind, again, Name, parameters, arguments)                            \
    int MPI_##Name(UNPACK parameters, MPI_Request* request) {                         \
        int result = NEXT(Name)(UNPACK arguments, request);                           \
        pthread_mutex_lock(&lock);                                                    \
        struct open_request* r = open_request(request, *kind ? COLLECTIVE : NOTHING); \
        r->name = kind, r->persistent = again, r->active = !again;                    \
        pthread_mutex_unlock(&lock);                                                  \
        return result;                                                                \
    }
UNLISTED("NEIGHBOURHOOD_REQUEST", 0, Ineighbor_allgather,
         (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm), (sb, sc, st, rb, rc, rt, comm))
UNLISTED("NEIGHBOURHOOD_REQUEST", 0, Ineighbor_alltoallv,
         (const void* sb, const int sc[], const int sd[], MPI_Datatype st, void* rb, const int rc[], const int rd[], MPI_Datatype rt,
          MPI_Comm comm),
         (sb, sc, sd, st, rb, rc, rd, rt, comm))
#if MPI_VERSION >= 4
UNLISTED("NEIGHBOURHOOD_REQUEST", 1, Neighbor_allgather_init,
         (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm, MPI_Info info),
         (sb, sc, st, rb, rc, rt, comm, info))
#endif
UNLISTED("FILE_REQUEST", 0, File_iwrite_at_all, (MPI_File file, MPI_Offset at, const void* b, int n, MPI_Datatype type),
         (file, at, b, n, type))
UNLISTED("FILE_REQUEST", 0, File_iread_at_all, (MPI_File file, MPI_Offset at, void* b, int n, MPI_Datatype type), (file, at, b, n, type))
UNLISTED("", 0, File_iread_at, (MPI_File file, MPI_Offset at, void* b, int n, MPI_Datatype type), (file, at, b, n, type))
UNLISTED("", 0, File_iwrite_at, (MPI_File file, MPI_Offset at, const void* b, int n, MPI_Datatype type), (file, at, b, n, type))
OF_FILE(File_write_at_all_begin, (MPI_File file, MPI_Offset at, const void* b, int n, MPI_Datatype type), (file, at, b, n, type))
OF_FILE(File_write_at_all_end, (MPI_File file, const void* b, MPI_Status* status), (file, b, status))
