package proxies

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// Status describes a proxy that is attached.
type Status = uplnd.Status

// Table returns the tunables of NIs that proxies serve, on nets of the type t.
func Table(t lnet.NetType) lnd.Table { return uplnd.Table(t) }
