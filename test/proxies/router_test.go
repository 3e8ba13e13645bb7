package proxies

import (
	"context"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// beRouter is a router whose first NI is over TCP. Proxies serve the others. It does what lnetd does for them.
func beRouter(ctx context.Context, o order) error {
	s, err := startServer(o.Socket, uplnd.Config{})
	if err != nil {
		return err
	}
	n, err := node.New(node.Config{Parameters: parameters(), Routing: true})
	if err != nil {
		return err
	}
	d, end, err := openDriver("", o.Port)
	if err != nil {
		return err
	}
	add := func(d lnd.Driver, text string) error {
		nid, err := lnet.ParseNID(text)
		if err == nil {
			_, err = n.AddNI(ctx, d, lnd.Config{Net: nid.Net(), NID: nid})
		}
		return err
	}
	if o.NID != "" {
		err = add(d, o.NID)
	}
	for _, text := range o.Served {
		err = errors.Join(err, add(s.Driver(lnet.TypeTCP, ""), text))
	}
	if err != nil {
		return err
	}
	fmt.Println("up")
	<-ctx.Done()
	err = errors.Join(n.Close(context.Background()), end(), s.Close(context.Background()))
	s.served.Wait()
	return err
}
