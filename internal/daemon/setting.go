package daemon

import (
	"strconv"

	"github.com/lnetd/lnetd/internal/config"
)

// setting is an option of a driver, and the way in which it gets into the driver's
// own configuration, a C.
type setting[C any] struct {
	config.Option
	put func(*C, string)
}

// integer is a type that a number is kept in.
type integer interface{ ~int | ~int64 | ~uint8 }

// whole is a setting that is a number from lo to hi; at is where it is kept, in
// units of unit. Its default is that of defaults.
func whole[C any, T integer](defaults *C, name string, lo, hi int, unit T, at func(*C) *T, help string) setting[C] {
	return setting[C]{
		config.Option{
			Name: name, Kind: config.Whole{Min: lo, Max: hi}, Default: strconv.Itoa(int(*at(defaults) / unit)), Help: help,
		},
		func(c *C, text string) { *at(c) = T(numberOf(text)) * unit },
	}
}

// truth is a setting that is 0 or 1, as module parameters are written.
func truth[C any](defaults *C, name string, at func(*C) *bool, help string) setting[C] {
	text := strconv.FormatInt(number(*at(defaults)), 10)
	return setting[C]{
		config.Option{Name: name, Kind: config.Whole{Max: 1}, Default: text, Help: help},
		func(c *C, text string) { *at(c) = text != "0" },
	}
}

// numberOf is the number that an option's kind has let pass.
func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("daemon: " + err.Error())
	}
	return n
}

// optionsOf are the settings as config knows them.
func optionsOf[C any](settings []setting[C]) []config.Option {
	options := make([]config.Option, len(settings))
	for k := range settings {
		options[k] = settings[k].Option
	}
	return options
}

// putAll puts what is given of the settings into c.
func putAll[C any](c *C, v config.Values, settings []setting[C]) {
	for k := range settings {
		if text, ok := v[settings[k].Name]; ok {
			settings[k].put(c, text)
		}
	}
}
