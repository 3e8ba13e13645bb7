package main

import (
	"fmt"
	"log/slog"
)

// level is the value of an option: a level of the log.
type level slog.Level

// String implements pflag.Value.
func (l *level) String() string { return slog.Level(*l).String() }

// Type implements pflag.Value.
func (l *level) Type() string { return "level" }

// Set implements pflag.Value.
func (l *level) Set(text string) error {
	var v slog.Level
	switch text {
	case "debug", "info", "warn", "error":
		if err := v.UnmarshalText([]byte(text)); err != nil {
			return err
		}
		*l = level(v)
		return nil
	}
	return fmt.Errorf("'%s' is not debug, info, warn or error", text)
}
