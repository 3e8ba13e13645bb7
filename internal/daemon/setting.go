package daemon

import (
	"strconv"

	"github.com/lnetd/lnetd/internal/config"
)

// setting is an option of a driver, with the function that stores it in the driver's
// configuration C.
type setting[C any] struct {
	config.Option
	put func(*C, string)
}

// integer is a type for numeric settings.
type integer interface{ ~int | ~int64 | ~uint8 }

// whole returns a setting that is a number from lo to hi. It is stored at the field that at
// returns, in multiples of unit. Its default is the value in defaults.
func whole[C any, T integer](defaults *C, name string, lo, hi int, unit T, at func(*C) *T, help string) setting[C] {
	return setting[C]{
		config.Option{
			Name: name, Kind: config.Whole{Min: lo, Max: hi}, Default: strconv.Itoa(int(*at(defaults) / unit)), Help: help,
		},
		func(c *C, text string) { *at(c) = T(numberOf(text)) * unit },
	}
}

// truth returns a setting that is 0 or 1, as in module parameters.
func truth[C any](defaults *C, name string, at func(*C) *bool, help string) setting[C] {
	text := strconv.FormatInt(number(*at(defaults)), 10)
	return setting[C]{
		config.Option{Name: name, Kind: config.Whole{Max: 1}, Default: text, Help: help},
		func(c *C, text string) { *at(c) = text != "0" },
	}
}

// numberOf returns the number of an option that its kind has validated.
func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("daemon: " + err.Error())
	}
	return n
}

// optionsOf returns the options of settings.
func optionsOf[C any](settings []setting[C]) []config.Option {
	options := make([]config.Option, len(settings))
	for k := range settings {
		options[k] = settings[k].Option
	}
	return options
}

// putAll stores the values of the given settings in c.
func putAll[C any](c *C, v config.Values, settings []setting[C]) {
	for k := range settings {
		if text, ok := v[settings[k].Name]; ok {
			settings[k].put(c, text)
		}
	}
}
