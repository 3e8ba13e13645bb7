package daemon

import (
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// setting is an option of a driver. The function put stores a valid value of the option in the driver's
// configuration, of type C.
type setting[C any] struct {
	config.Option
	put func(*C, string)
}

// numberOf returns the value of an option as a number. It panics if text is not a number, because the
// option's kind has validated it.
func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("daemon: " + err.Error())
	}
	return n
}

// optionsOf returns only the options of a list of settings.
func optionsOf[C any](settings []setting[C]) []config.Option {
	options := make([]config.Option, len(settings))
	for k := range settings {
		options[k] = settings[k].Option
	}
	return options
}

// putAll stores the values in v in the driver configuration c. It ignores values for which there is no
// setting.
func putAll[C any](c *C, v config.Values, settings []setting[C]) {
	for k := range settings {
		if text, ok := v[settings[k].Name]; ok {
			settings[k].put(c, text)
		}
	}
}
