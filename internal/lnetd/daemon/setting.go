package daemon

import (
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// setting is an option of a driver, with the function that stores it in the driver's
// configuration C.
type setting[C any] struct {
	config.Option
	put func(*C, string)
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
