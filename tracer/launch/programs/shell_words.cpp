// SPDX-License-Identifier: BSD-3-Clause
#include "shell_words.hpp"

#include <algorithm>

namespace polter::launch {
namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

class Reader {
  public:
    Reader(std::string_view text, std::span<const std::string> arguments) : text_(text), arguments_(arguments) {}

    std::vector<std::vector<std::string>> run() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (is_blank(c) || (c == '\\' && next() == '\n')) {
                end_word();
                at_ += c == '\\' ? 2 : 1;
            } else if (c == '#' && !in_word_) {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
                separator(c);
            } else if (c == '<' || c == '>') {
                redirection();
            } else {
                part_of_word(c);
            }
        }
        end_command();
        return std::move(commands_);
    }

  private:
    char next(size_t ahead = 1) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

    void separator(char c) {
        // "2>&1" and "&>file" are redirections.
        if (c == '&' && next() == '>') {
            end_word();
            ++at_;
            return redirection();
        }
        end_command();
        ++at_;
    }

    void redirection() {
        if (in_word_ && std::all_of(word_.begin(), word_.end(), is_digit)) {  // the descriptor
            word_.clear();
            in_word_ = false;
        }
        end_word();
        while (at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '&')) ++at_;
        drop_next_ = true;
    }

    void part_of_word(char c) {
        in_word_ = true;
        ++at_;
        if (c == '\'') {
            const size_t end = std::min(text_.find('\'', at_), text_.size());
            word_ += text_.substr(at_, end - at_);
            at_ = std::min(end + 1, text_.size());
        } else if (c == '"') {
            while (at_ < text_.size() && text_[at_] != '"') {
                if (text_[at_] == '\\' && at_ + 1 < text_.size())
                    ++at_;
                else if (text_[at_] == '$' || text_[at_] == '`') {
                    expansion();
                    continue;
                }
                word_ += text_[at_++];
            }
            at_ = std::min(at_ + 1, text_.size());
        } else if (c == '\\') {
            if (at_ < text_.size()) word_ += text_[at_++];
        } else if (c == '$' || c == '`') {
            --at_;
            expansion();
        } else {
            unknown_ |= c == '*' || c == '?' || c == '[' || (c == '~' && word_.empty());
            word_ += c;
        }
    }

    // At a '$' or '`'. Goes behind it.
    void expansion() {
        const char c = text_[at_], of = next();
        if (c == '$' && is_digit(of)) {
            const auto index = static_cast<size_t>(of - '0');
            if (index < arguments_.size())
                word_ += arguments_[index];
            else
                unknown_ |= index == 0;
            at_ += 2;
        } else if (c == '$' && of == '@') {
            all_arguments_ = true;
            at_ += 2;
        } else {
            unknown_ = true;
            skip_expansion(c, of);
        }
    }

    void skip_expansion(char c, char of) {
        ++at_;
        if (c == '`') {
            at_ = std::min(text_.find('`', at_), text_.size());
        } else if (of == '(' || of == '{') {
            const char close = of == '(' ? ')' : '}';
            for (int depth = 0; at_ < text_.size(); ++at_) {
                if (text_[at_] == of) ++depth;
                if (text_[at_] == close && --depth == 0) break;
            }
        } else {
            return;  // the name is read as a part of the word, which is unknown anyway
        }
        at_ = std::min(at_ + 1, text_.size());
    }

    void end_word() {
        if (in_word_ && !drop_next_) {
            if (all_arguments_ && word_.empty() && !unknown_) {
                if (arguments_.size() > 1) words_.insert(words_.end(), arguments_.begin() + 1, arguments_.end());
            } else {
                words_.push_back(unknown_ || all_arguments_ ? std::string() : word_);
            }
        }
        if (in_word_) drop_next_ = false;
        word_.clear();
        in_word_ = unknown_ = all_arguments_ = false;
    }

    void end_command() {
        end_word();
        drop_next_ = false;
        if (!words_.empty()) commands_.push_back(std::move(words_));
        words_.clear();
    }

    std::string_view text_;
    std::span<const std::string> arguments_;
    size_t at_ = 0;
    std::string word_;
    bool in_word_ = false, unknown_ = false, all_arguments_ = false, drop_next_ = false;
    std::vector<std::string> words_;
    std::vector<std::vector<std::string>> commands_;
};

}  // namespace

std::vector<std::vector<std::string>> shell_commands(std::string_view text, std::span<const std::string> arguments) {
    return Reader(text, arguments).run();
}

}  // namespace polter::launch
