// SPDX-License-Identifier: BSD-3-Clause
// What a Fortran program passes, as the handlers take it. Everything comes by reference: handles are integers, indices count from one,
// a logical is an integer, a status is the same bytes as in C, a text has a length behind all arguments instead of an end.
//
// A wrapper calls the next definition of its own Fortran name with the program's own arguments, so that what the MPI makes of a buffer,
// of MPI_BOTTOM, of a callback stays its own affair. Only statuses are exchanged: the tracer needs one where the program wants none.
#pragma once

#include <algorithm>
#include <string>

#include "core/call.hpp"
#include "core/variables.hpp"

namespace polter::mpi::fortran {

static_assert(sizeof(MPI_Fint) == sizeof(int), "the MPI was built for INTEGERs of another size");

// The Fortran names that are wrapped, in the generated source. A slot is an index into them.
extern const char* const slot_names[];
extern const unsigned slot_count;
extern void* next_functions[];
// What the routine calls the first of several requests: 1, but for an MPI's mistake.
extern int first_index[];

// Where the process has Fortran's part of MPI: finds it. To be called when MPI is up.
void prepare();
void* find_next(unsigned slot);
template <typename F>
F next_of(unsigned slot) {
    void* f = next_functions[slot];
    if (!f) [[unlikely]]
        f = find_next(slot);
    return reinterpret_cast<F>(f);
}
// Says that the MPI library lacks the function.
void missing(unsigned slot, MPI_Fint* ierror);

// Handles that are integers in C are the same integers; others are looked up by MPI.
#ifdef OPEN_MPI
#define POLTER_CONVERTED(X) \
    X(Comm, MPI_Comm)       \
    X(File, MPI_File) X(Group, MPI_Group) X(Message, MPI_Message) X(Request, MPI_Request) X(Type, MPI_Datatype) X(Win, MPI_Win)
#else
#define POLTER_CONVERTED(X) X(File, MPI_File)
#endif
struct Conversions {
#define POLTER_POINTER(name, Handle) Handle (*name)(MPI_Fint) = nullptr;
    POLTER_CONVERTED(POLTER_POINTER)
#undef POLTER_POINTER
    bool ready = false;
};
extern Conversions conversions;

template <typename Handle>
Handle f2c(MPI_Fint value) {
    return static_cast<Handle>(value);
}
#define POLTER_CONVERSION(name, Handle)         \
    template <>                                 \
    inline Handle f2c<Handle>(MPI_Fint value) { \
        return conversions.name(value);         \
    }
POLTER_CONVERTED(POLTER_CONVERSION)
#undef POLTER_CONVERSION

// Whether a call's arguments may be looked at.
inline bool traced(const Call& call) {
    return call && conversions.ready;
}

bool is_in_place(const void* buffer);
bool is_status_ignore(const void* status);

// A buffer as C's functions know it. `descriptor`: the program passed a descriptor of an array, which begins with its address.
inline const void* c_buffer(const void* passed, bool descriptor) {
    const void* address = descriptor && passed ? *static_cast<const void* const*>(passed) : passed;
    return is_in_place(address) ? MPI_IN_PLACE : address;
}

// The error code; mpi_f08 may leave it out.
class Result {
  public:
    explicit Result(MPI_Fint* ierror) : at_(ierror ? ierror : &own_) {}
    MPI_Fint* at() { return at_; }
    operator int() const { return *at_; }

  private:
    MPI_Fint own_ = MPI_SUCCESS;
    MPI_Fint* const at_;
};

enum Direction { given, made };  // the handle is there before the call; after it

// A variable with one handle.
template <typename Handle>
class Reference {
  public:
    Reference(const MPI_Fint* variable, Direction direction) : variable_(variable) {
        if (direction == given) take();
    }
    Handle* c() { return &handle_; }
    RequestVariables variables() { return {&handle_, variable_}; }
    void take() { handle_ = f2c<Handle>(*variable_); }

  private:
    const MPI_Fint* const variable_;
    Handle handle_{};
};

class Requests {
  public:
    Requests(const MPI_Fint* variables, int count)
        : variables_(variables), count_(std::max(count, 0)), handles_(room(scratch().requests, count_)) {
        convert();
    }
    RequestVariables variables() { return {handles_, variables_}; }
    // What a call that failed has done to them.
    void take(int result) {
        if (result != MPI_SUCCESS) convert();
    }

  private:
    void convert() {
        for (int i = 0; i < count_; i++) handles_[i] = f2c<MPI_Request>(variables_[i]);
    }
    const MPI_Fint* const variables_;
    const int count_;
    MPI_Request* const handles_;
};

// Statuses of our own, as the program's were; given back to it if it wants them. Also what MPI does not write stays as it was.
class Statuses {
  public:
    explicit Statuses(void* wanted, int count) : wanted_(is_status_ignore(wanted) ? nullptr : wanted), bytes_(bytes(count)) {
        own_ = count == 1 ? &one_ : room(scratch().statuses, std::max(count, 0));
        if (wanted_ && bytes_) std::memcpy(own_, wanted_, bytes_);
    }
    MPI_Status* c() { return own_; }
    void take() {
        if (wanted_ && bytes_) std::memcpy(wanted_, own_, bytes_);
    }

  private:
    static size_t bytes(int count) { return static_cast<size_t>(std::max(count, 0)) * sizeof(MPI_Status); }
    void* const wanted_;
    const size_t bytes_;
    MPI_Status one_;
    MPI_Status* own_;
};

class Flag {
  public:
    explicit Flag(const MPI_Fint* flag) : flag_(flag) {}
    int* c() { return &c_; }
    void take() { c_ = *flag_ != 0; }

  private:
    const MPI_Fint* const flag_;
    int c_ = 0;
};

class Index {
  public:
    Index(const MPI_Fint* index, int first) : index_(index), first_(first) {}
    int* c() { return &c_; }
    void take() { c_ = *index_ == MPI_UNDEFINED ? MPI_UNDEFINED : *index_ - first_; }

  private:
    const MPI_Fint* const index_;
    const int first_;
    int c_ = MPI_UNDEFINED;
};

class Indices {
  public:
    Indices(const MPI_Fint* indices, int most, const MPI_Fint* count, int first)
        : indices_(indices), count_(count), first_(first), most_(std::max(most, 0)), c_(room(scratch().indices, most_)) {}
    int* c() { return c_; }
    void take() {
        if (*count_ == MPI_UNDEFINED) return;
        for (int i = 0; i < std::min(*count_, most_); i++) c_[i] = indices_[i] - first_;
    }

  private:
    const MPI_Fint *const indices_, *const count_;
    const int first_, most_;
    int* const c_;
};

// A datatype for each rank that the communicator's operations reach; none are looked at where they are not `significant`. `side`: 0 or 1.
const MPI_Datatype* c_types(const MPI_Fint* types, MPI_Comm comm, bool significant, int side);

// Without the blanks that fill it up.
inline std::string c_text(const void* characters, size_t length) {
    const std::string all(static_cast<const char*>(characters), length);
    return all.substr(0, all.find_last_not_of(' ') + 1);
}

}  // namespace polter::mpi::fortran
