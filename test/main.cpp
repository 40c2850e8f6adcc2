// SPDX-License-Identifier: BSD-3-Clause
// The main of tests that have none of their own.
#include <doctest/doctest.h>

#include <cstdio>

namespace {

unsigned selected = 0;

struct Selected : doctest::IReporter {
    explicit Selected(const doctest::ContextOptions&) {}
    void report_query(const doctest::QueryData&) override { selected = 1; }
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats& stats) override { selected = stats.numTestCasesPassingFilters; }
    void test_case_start(const doctest::TestCaseData&) override {}
    void test_case_reenter(const doctest::TestCaseData&) override {}
    void test_case_end(const doctest::CurrentTestCaseStats&) override {}
    void test_case_exception(const doctest::TestCaseException&) override {}
    void subcase_start(const doctest::SubcaseSignature&) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData&) override {}
    void log_message(const doctest::MessageData&) override {}
    void test_case_skipped(const doctest::TestCaseData&) override {}
};
DOCTEST_REGISTER_LISTENER("selected", 1, Selected);

}  // namespace

int main(int argc, char** argv) {
    doctest::Context context(argc, argv);
    const int status = context.run();
    // A filter that no case passes, as after a source got another name, would test nothing from then on.
    if (status == 0 && selected == 0 && !context.shouldExit()) {
        std::fprintf(stderr, "no test case passes these filters\n");
        return 1;
    }
    return status;
}
