package modparam

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// wholeNumber parses a number as kernels do, which may be decimal, octal with a leading 0, or hexadecimal, and
// returns it in decimal form.
func wholeNumber(value string) (string, error) {
	digits := strings.TrimLeft(value, "+-")
	n, err := strconv.ParseInt(value, 0, 64)
	if err != nil || len(digits) > 1 && strings.ContainsAny(digits[1:2], "bBoO") || strings.Contains(digits, "_") {
		return "", fmt.Errorf("'%s' is not a whole number", value)
	}
	return strconv.FormatInt(n, 10), nil
}

// buffersMax is the maximum number of router buffers of one size in lnetd.
const buffersMax = 1 << 20

// pool parses a number of router buffers and returns it in decimal form.
func pool(value string) (string, error) {
	number, err := wholeNumber(value)
	if err != nil {
		return "", err
	}
	if n, err := strconv.ParseInt(number, 10, 64); err != nil || n < 0 || n > buffersMax {
		return "", fmt.Errorf("%s is not in 0 to %d", number, buffersMax)
	}
	return number, nil
}

// truth parses a boolean parameter of a module and returns "1" or "0". It also accepts other numbers, which it
// returns in decimal form.
func truth(value string) (string, error) {
	switch value {
	case "0", "n", "N":
		return "0", nil
	case "1", "y", "Y":
		return "1", nil
	}
	return wholeNumber(value)
}

// not parses a boolean parameter of a module and returns the opposite as "1" or "0".
func not(value string) (string, error) {
	yes, err := truth(value)
	switch {
	case err != nil:
		return "", err
	case yes == "0":
		return "1", nil
	}
	return "0", nil
}

// word returns a function that accepts only the given words and returns them unchanged.
func word(words ...string) func(string) (string, error) {
	return func(value string) (string, error) {
		for _, w := range words {
			if value == w {
				return w, nil
			}
		}
		return "", fmt.Errorf("'%s' is not one of %q", value, words)
	}
}

// checked returns a function that accepts the values that parse accepts, and returns them in quotes.
func checked[T any](parse func(string) (T, error)) func(string) (string, error) {
	return func(value string) (string, error) {
		if _, err := parse(value); err != nil {
			return "", withoutWhat(err)
		}
		return strconv.Quote(value), nil
	}
}

// withoutWhat returns err without the name of the parameter, because callers put the name before the error.
func withoutWhat(err error) error {
	if field := (*lnet.FieldError)(nil); errors.As(err, &field) {
		return fmt.Errorf("%q: %w", field.Value, field.Err)
	}
	return err
}
