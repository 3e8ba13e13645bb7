package main

import (
	"fmt"
	"strconv"
	"strings"
)

// numberOrNone parses the value of an option as a number. It returns false if the option is not given, or is not
// a number; in the latter case it prints a warning that the option is ignored (lnetctl 1.8).
func (p *program) numberOrNone(option, given string) (int64, bool) {
	n, ok := parseNumber(given)
	if !ok && given != "" {
		p.warn(fmt.Sprintf("--%s '%s' is ignored: it is not a number", option, given))
	}
	return n, ok
}

// parseNumber parses a number as C programs do. After an optional sign it is hexadecimal with the prefix 0x,
// octal with the prefix 0, and otherwise decimal. parseNumber returns false if other characters follow, or if
// the number is too large (lnetctl 1.8).
func parseNumber(s string) (int64, bool) {
	digits := strings.TrimLeft(s, " \t")
	sign := ""
	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		if digits[0] == '-' {
			sign = "-"
		}
		digits = digits[1:]
	}
	base := 10
	switch {
	case len(digits) > 2 && (strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X")):
		base, digits = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base, digits = 8, digits[1:]
	}
	if digits == "" || strings.ContainsAny(digits, "_+-") {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+digits, base, 64)
	return n, err == nil
}
