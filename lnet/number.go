package lnet

import (
	"strconv"
	"strings"
)

// parseDecimal parses a decimal number. It returns false if s contains anything but
// digits, or if the number is above limit. Leading zeros are allowed.
func parseDecimal(s string, limit uint32) (uint32, bool) {
	return parseBase(s, 10, limit)
}

// parseAddress parses an address on a net without IP addresses: a decimal number, or a
// hexadecimal one after 0x (lnet-wire 3.2).
func parseAddress(s string, limit uint32) (uint32, bool) {
	if hex, ok := cutHex(s); ok {
		return parseBase(hex, 16, limit)
	}
	return parseDecimal(s, limit)
}

// parseHex parses a hexadecimal number without a prefix.
func parseHex(s string, limit uint32) (uint32, bool) { return parseBase(s, 16, limit) }

// parseAutoBase parses a number in a range expression: it is hexadecimal after 0x, octal
// after 0, and otherwise decimal (lnet-wire 3.5).
func parseAutoBase(s string, limit uint32) (uint32, bool) {
	if hex, ok := cutHex(s); ok {
		return parseBase(hex, 16, limit)
	}
	if octal, ok := strings.CutPrefix(s, "0"); ok && octal != "" {
		return parseBase(octal, 8, limit)
	}
	return parseDecimal(s, limit)
}

func cutHex(s string) (string, bool) {
	if len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		return s[2:], true
	}
	return s, false
}

// parseBase parses a number that consists only of digits of the given base, without a
// sign, blanks or underscores. It returns false if s is anything else, or if the number is
// above limit.
func parseBase(s string, base int, limit uint32) (uint32, bool) {
	if s == "" || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	v, err := strconv.ParseUint(s, base, 32)
	if err != nil || v > uint64(limit) {
		return 0, false
	}
	return uint32(v), true
}
