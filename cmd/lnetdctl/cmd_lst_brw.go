package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// brwMax and brwDefault are the maximum and the default size of the data of a request in a BRW test, in bytes
// (selftest 5, 8).
const (
	brwMax     = 1 << 20
	brwDefault = 4096
)

// lstText is an error with a message of Lustre's lst. Unlike other errors, it begins with a capital letter.
type lstText string

func (t lstText) Error() string { return string(t) }

func lstSays(format string, args ...any) error { return lstText(fmt.Sprintf(format, args...)) }

// brwParameters parses the words after "brw" in add_test (selftest 8), which may be in any order. The case of
// names does not matter. Errors have the messages of Lustre's lst.
func brwParameters(words []string) (api.LstBRW, error) {
	b := api.LstBRW{Size: brwDefault, Check: "none"}
	checked, discarded := false, false
	for _, w := range words {
		name, value, given := strings.Cut(w, "=")
		switch name = strings.ToLower(name); {
		case !given && (name == "read" || name == "r"):
			b.Write = false
		case !given && (name == "write" || name == "w"):
			b.Write = true
		case !given && (name == "skip_rx_copy" || name == "skip-rx-copy"):
			discarded = true
		case given && (name == "size" || name == "s"):
			n, ok := brwSize(value)
			if !ok || n < 1 {
				return b, lstSays("Invalid size %s", value)
			}
			if n > brwMax {
				return b, lstSays("Size exceed limitation: %d bytes", n)
			}
			b.Size = int(n)
		case given && name == "off":
			n, ok := brwSize(value)
			if !ok || n < 0 || n%8 != 0 || n > brwMax {
				return b, lstSays("Invalid offset %s", value)
			}
			b.Offset = int(n)
		case given && (name == "check" || name == "c"):
			switch value = strings.ToLower(value); value {
			case "full", "simple", "discard":
				b.Check, checked = value, value != "discard"
			default:
				return b, lstSays("Invalid flag for check: %s", value)
			}
		default:
			return b, lstSays("Unknow parameter: %s", w)
		}
	}
	if discarded {
		if checked {
			return b, fmt.Errorf("skip_rx_copy conflicts with check=%s", b.Check)
		}
		b.Check = "discard"
	}
	return b, nil
}

// brwSize parses a number of bytes, which may have the suffix k or m.
func brwSize(s string) (int64, bool) {
	s, unit := cutUnit(s, "km")
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, false
	}
	return n << unit, true
}

// cutUnit splits s into a number and a unit. The unit is the last letter of s if units contains it; the case
// does not matter. Each of units is 1024 times the one before, and the first one is 1024. The result shift is
// the number of bits by which the number must be shifted to the left, 0 without a unit.
func cutUnit(s, units string) (number string, shift int) {
	if s == "" {
		return "", 0
	}
	last := len(s) - 1
	k := strings.IndexByte(units, s[last]|0x20) // 0x20 converts to lower case
	if k < 0 {
		return s, 0
	}
	return s[:last], 10 * (k + 1)
}
