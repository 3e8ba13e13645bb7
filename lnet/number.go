package lnet

import (
	"strconv"
	"strings"
)

// parseDecimal reads a text of decimal digits and nothing else, at most limit.
// Leading zeros do not matter.
func parseDecimal(s string, limit uint32) (uint32, bool) {
	return parseBase(s, 10, limit)
}

// parseAddress reads a number as addresses of nets without IP have it:
// decimal, or hexadecimal after 0x (lnet-wire 3.2).
func parseAddress(s string, limit uint32) (uint32, bool) {
	if hex, ok := cutHex(s); ok {
		return parseBase(hex, 16, limit)
	}
	return parseDecimal(s, limit)
}

// parseHex reads a hexadecimal number without a prefix.
func parseHex(s string, limit uint32) (uint32, bool) { return parseBase(s, 16, limit) }

// parseAutoBase reads a number as expressions have it: hexadecimal after 0x,
// octal after 0, else decimal (lnet-wire 3.5).
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

// parseBase reads digits of the base and nothing else: no sign, no blank, no
// underscore.
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
