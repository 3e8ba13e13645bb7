package lnd_test

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// settings is the configuration of a driver.
type settings struct {
	Timeout   time.Duration
	Keepalive bool
}

// fields is the one place that names the driver's tunables.
var fields = lnd.Fields[settings]{
	lnd.NumberIn(func(c *settings) *time.Duration { return &c.Timeout }, lnd.Tunable{
		Name: "timeout", Parameter: "example_timeout", Min: 1, Max: 600, Default: 50, Unit: lnd.Seconds,
		Help: "time until a connection without progress is closed",
	}),
	lnd.BoolIn(func(c *settings) *bool { return &c.Keepalive }, lnd.Tunable{
		Name: "keepalive", Parameter: "example_keepalive", Default: 1, Help: "whether idle connections are checked",
	}),
}

// A driver declares its tunables once. The fields set and check its configuration, and Fields.Tunables returns
// what a Table needs for documents and commands.
func ExampleFields() {
	var c settings
	fields.SetDefaults(&c)
	fmt.Println(c.Timeout, c.Keepalive)

	if err := fields.Set(&c, "example_timeout", 20); err != nil { // of the whole driver
		fmt.Println(err)
	}
	if err := fields.SetAll(&c, lnd.Values{"keepalive": 0}); err != nil { // of an NI
		fmt.Println(err)
	}
	fmt.Println(fields.Values(&c))
	fmt.Println(fields.Set(&c, "example_timeout", 601))

	table := lnd.Table{Section: "example", Tunables: fields.Tunables()}
	for _, t := range table.Tunables {
		fmt.Printf("--%s (%d to %d): %s\n", t.Option(), t.Min, t.Max, t.Help)
	}
	// Output:
	// 50s true
	// map[keepalive:0 timeout:20]
	// example_timeout: 601 is not in 1 to 600
	// --timeout (1 to 600): time until a connection without progress is closed
	// --keepalive (0 to 1): whether idle connections are checked
}
