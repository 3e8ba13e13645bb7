package daemon

import (
	"math"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/lnet"
)

// o2ib is the entry of LNet over verbs in the table of drivers: this lnetd keeps what is
// configured of it, and its NIs wait (o2iblnd 15).
func o2ib() Driver {
	count := config.Whole{Min: 0, Max: math.MaxInt32}
	return absent(config.DriverOptions{
		Type: lnet.TypeO2IB,
		Tunables: []config.Option{
			{Name: "peercredits_hiw", Kind: count},
			{Name: "map_on_demand", Kind: config.Truth{}},
			{Name: "concurrent_sends", Kind: count},
			{Name: "fmr_pool_size", Kind: count},
			{Name: "fmr_flush_trigger", Kind: count},
			{Name: "fmr_cache", Kind: count},
			{Name: "ntx", Kind: count},
			{Name: "conns_per_peer", Kind: config.Whole{Min: 0, Max: 127}},
			{Name: "timeout", Kind: config.Shown{}},
			{Name: "tos", Kind: config.Within{Min: -1, Max: 255}},
		},
	})
}
