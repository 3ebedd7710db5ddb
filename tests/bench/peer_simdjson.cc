// Records through simdjson, as a peer of bench_parse: one command a line on stdin, one answer a line on stdout.
//
//   peer_simdjson FILE      NDJSON, plain
//   ondemand | dom          parse every line and walk what tcld's parser reads: answers seconds of CPU and a checksum
//
// The walk reads the task (key, target, hardware parameters, host, layout, names), every operand of every step, and the
// result, as bench_parse does with jansson. It checks less than tcld does: no step grammar, no ranges, no limits.
#include <simdjson.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using namespace simdjson;

struct Sum {
    uint64_t ints = 0, steps = 0, bytes = 0;
    double reals = 0;
};

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static void walk(ondemand::value v, Sum &s, bool reals)
{
    switch (v.type()) {
    case ondemand::json_type::array:
        for (auto item : v.get_array())
            walk(item.value(), s, reals);
        break;
    case ondemand::json_type::number:
        if (reals)
            s.reals += v.get_double();
        else
            s.ints += static_cast<uint64_t>(v.get_int64().value());
        break;
    case ondemand::json_type::string:
        s.bytes += v.get_string().value().size();
        break;
    default:
        break;
    }
}

static void record(ondemand::document &d, Sum &s)
{
    for (auto field : d.get_object()) {
        std::string_view key = field.unescaped_key();
        if (key == "i") {
            size_t part = 0;
            for (auto item : field.value().get_array()) {
                if (part++ == 0) {
                    walk(item.value(), s, false);
                    continue;
                }
                size_t half = 0;
                for (auto list : item.get_array()) {
                    if (half++ == 0)
                        continue;
                    for (auto step : list.get_array()) {
                        walk(step.value(), s, false);
                        s.steps++;
                    }
                }
            }
        } else if (key == "r") {
            walk(field.value(), s, true);
        } else {
            s.bytes += field.value().get_string().value().size();
        }
    }
}

static void walk(dom::element v, Sum &s, bool reals)
{
    switch (v.type()) {
    case dom::element_type::ARRAY:
        for (auto item : dom::array(v))
            walk(item, s, reals);
        break;
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
    case dom::element_type::DOUBLE:
        if (reals)
            s.reals += double(v);
        else
            s.ints += static_cast<uint64_t>(int64_t(v));
        break;
    case dom::element_type::STRING:
        s.bytes += std::string_view(v).size();
        break;
    default:
        break;
    }
}

static void record(dom::element d, Sum &s)
{
    for (auto field : dom::object(d)) {
        if (field.key == "i") {
            walk(dom::array(field.value).at(0), s, false);
            for (auto step : dom::array(dom::array(dom::array(field.value).at(1)).at(1))) {
                walk(step, s, false);
                s.steps++;
            }
        } else if (field.key == "r") {
            walk(field.value, s, true);
        } else {
            s.bytes += std::string_view(field.value).size();
        }
    }
}

int main(int argc, char **argv)
{
    std::ifstream f(argc > 1 ? argv[1] : "");
    std::vector<padded_string> lines;
    for (std::string line; std::getline(f, line);)
        if (!line.empty())
            lines.emplace_back(line);
    if (lines.empty()) {
        std::cout << "skip no lines" << std::endl;
        return 0;
    }
    std::cout << "ready simdjson " << SIMDJSON_STRINGIFY(SIMDJSON_VERSION) << ", " << get_active_implementation()->name()
              << std::endl;
    ondemand::parser parser;
    dom::parser dom_parser;
    for (std::string command; std::getline(std::cin, command);) {
        Sum s;
        const double start = now();
        try {
            for (const auto &line : lines) {
                if (command == "dom") {
                    record(dom_parser.parse(line), s);
                } else {
                    auto d = parser.iterate(line);
                    record(d.value(), s);
                }
            }
        } catch (const simdjson_error &e) {
            std::cout << "error: " << e.what() << std::endl;
            continue;
        }
        const double seconds = now() - start;
        std::printf("%.9g %llu %llu %llu %.9g\n", seconds, static_cast<unsigned long long>(s.ints),
                    static_cast<unsigned long long>(s.steps), static_cast<unsigned long long>(s.bytes), s.reals);
        std::fflush(stdout);
    }
    return 0;
}
