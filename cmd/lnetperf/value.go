package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// size is the value of an option: a number of bytes. It may have a suffix K, M, G or T for powers of 1024.
type size int

// String implements pflag.Value.
func (s *size) String() string { return strconv.Itoa(int(*s)) }

// Type implements pflag.Value.
func (s *size) Type() string { return "size" }

// Set implements pflag.Value.
func (s *size) Set(text string) error {
	digits, shift := text, 0
	if n := len(text); n > 0 {
		if k := strings.IndexByte("KMGT", text[n-1]&^0x20); k >= 0 {
			digits, shift = text[:n-1], 10*(k+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a size such as 4096, 4K or 1M", text)
	}
	*s = size(n << shift)
	return nil
}

// seconds is the value of an option: a duration with a unit, or a number of seconds.
type seconds time.Duration

// String implements pflag.Value.
func (s *seconds) String() string { return time.Duration(*s).String() }

// Type implements pflag.Value.
func (s *seconds) Type() string { return "time" }

// Set implements pflag.Value.
func (s *seconds) Set(text string) error {
	long := text
	if n := len(text); n > 0 && text[n-1] >= '0' && text[n-1] <= '9' {
		long += "s"
	}
	d, err := time.ParseDuration(long)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time such as 5, 0.5s or 2m", text)
	}
	*s = seconds(d)
	return nil
}
