package statuspage

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/lnetd/topology"
	"github.com/lnetd/lnetd/lnet"
)

// Limits of the page, which shows only the number of further objects.
const (
	peersShown   = 24  // on the first page, in the picture and in the table
	peersPerPage = 100 // on a page of the list of all peers
	routesShown  = 100
	clientsShown = 100
	proxiesShown = 100
	// findingsShown is the maximum number of findings. The worst ones come first.
	findingsShown = 100
	// troubledMost is the maximum number of peers with problems that are examined for findings.
	troubledMost = 64
)

// view holds what the templates show.
type view struct {
	Title   string
	Version api.Version
	Uptime  string
	Now     time.Time
	// Unready is why the node is not ready, or "".
	Unready string
	// Incomplete is why peers are missing, or "".
	Incomplete string
	Picture    *topology.Picture
	SVG        template.HTML
	Messages   trend
	Bytes      trend
	NIs        []niRow
	Routes     []api.Route
	RoutesLeft int
	Clients    []clientRow
	// ClientsLeft is the number of clients that are not shown. ClientsSocket is empty if lnetd hosts no clients.
	ClientsLeft   int
	ClientsSocket string
	Proxies       []api.ProxyInfo
	ProxiesLeft   int
	Findings      []diagnosis.Finding
	FindingsLeft  int
}

// niRow is a line of the table of NIs.
type niRow struct {
	Net    lnet.Net
	NI     topology.NI
	Health string
	// Messages and Bytes are the rates of sent and received ones together.
	Messages, Bytes trend
	Sent, Received  string
	Dropped         string
}

// clientRow is a line of the table of clients.
type clientRow struct {
	api.ClientInfo
	Memory            string
	Depth             int
	Completed, Failed string
}

// peersView holds what the template of the list of peers shows.
type peersView struct {
	Title string
	Now   time.Time
	Peers []topology.Peer
	// After is the ID of the last peer of the page before, or 0. Next is the ID for the next page, or 0.
	After, Next uint64
	Incomplete  string
}

// look reads the state of the node. It blocks until ctx is done at the latest.
func (p *Page) look(ctx context.Context) *view {
	s := p.source
	now := p.now()
	v := &view{Version: s.Version(), Now: now.UTC(), Unready: unready(s)}
	v.Uptime = duration(now.Sub(v.Version.Started))
	n := diagnosis.Node{Version: v.Version, Down: s.LNetDown(), Clients: s.Clients()}
	if !n.Down {
		n.Nets = api.Nets{Nets: s.Nets(), Waiting: s.Waiting()}
		n.Routes, n.Routing, n.Globals = s.Routes(), s.Routing(), s.Globals()
	}
	b := topology.New(n.Nets, n.Routes, n.Routing, peersShown)
	if !n.Down {
		v.Incomplete = p.addPeers(ctx, b, &n)
	}
	v.Picture = b.Picture()
	v.Title = title(v.Picture.Node)
	var svg strings.Builder
	_ = v.Picture.WriteSVG(&svg) // a strings.Builder returns no errors
	v.SVG = template.HTML(svg.String())
	v.Findings, v.FindingsLeft = head(diagnosis.Examine(&diagnosis.Facts{Stuck: s.Stuck(), Node: &n}), findingsShown)
	p.addRates(v, &n)
	v.addClients(&n.Clients)
	v.Routes, v.RoutesLeft = head(n.Routes, routesShown)
	v.Proxies, v.ProxiesLeft = head(n.Clients.Proxies, proxiesShown)
	return v
}

// addPeers adds all peers to the picture, and those that findings may be about to n. It returns why peers are
// missing, or "".
func (p *Page) addPeers(ctx context.Context, b *topology.Builder, n *diagnosis.Node) (incomplete string) {
	for peer, err := range p.source.Peers(ctx, 0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "peers are missing, because lnetd did not list them in time"
		}
		if state := b.Add(&peer); (state != topology.OK || peer.Gateway) && len(n.Peers) < troubledMost {
			peer.NIs = slices.Clone(peer.NIs)
			n.Peers = append(n.Peers, peer)
		}
	}
	return ""
}

// addRates adds the rates of the node and its NIs.
func (p *Page) addRates(v *view, n *diagnosis.Node) {
	all := p.history.of(lnet.NID{})
	v.Messages = trendOf(all.messages, "messages", perSecond)
	v.Bytes = trendOf(all.bytes, "bytes", bytesPerSecond)
	figures := map[string]*api.NI{}
	for k := range n.Nets.Nets {
		for i := range n.Nets.Nets[k].NIs {
			ni := &n.Nets.Nets[k].NIs[i]
			figures[ni.NID.String()] = ni
		}
	}
	for _, net := range v.Picture.Nets {
		for _, ni := range net.NIs {
			row := niRow{Net: net.Net, NI: ni}
			if f := figures[ni.Name]; f != nil && ni.State != topology.Waiting {
				r := p.history.of(f.NID)
				row.Health = fmt.Sprint(f.Health.Value)
				row.Sent, row.Received, row.Dropped = number(f.Statistics.Sent), number(f.Statistics.Received), number(f.Statistics.Dropped)
				row.Messages = trendOf(r.messages, "messages", perSecond)
				row.Bytes = trendOf(r.bytes, "bytes", bytesPerSecond)
			}
			v.NIs = append(v.NIs, row)
		}
	}
}

func (v *view) addClients(c *api.Clients) {
	v.ClientsSocket = c.Socket
	var list []api.ClientInfo
	list, v.ClientsLeft = head(c.Clients, clientsShown)
	for _, one := range list {
		row := clientRow{ClientInfo: one, Memory: size(float64(one.Bytes))}
		var completed, failed uint64
		for k := range one.TMs {
			for _, q := range one.TMs[k].Queues {
				row.Depth += q.Depth
				completed, failed = completed+q.Completed, failed+q.Failed
			}
		}
		row.Completed, row.Failed = number(completed), number(failed)
		v.Clients = append(v.Clients, row)
	}
}

// lookAtPeers reads a page of the list of all peers: those with IDs above after.
func (p *Page) lookAtPeers(ctx context.Context, after uint64) *peersView {
	v := &peersView{Now: p.now().UTC(), After: after, Title: title(lnet.NID{})}
	if p.source.LNetDown() {
		v.Incomplete = "LNet is not configured"
		return v
	}
	b := topology.New(api.Nets{Nets: p.source.Nets()}, nil, api.Routing{}, peersPerPage)
	n, last := 0, uint64(0)
	for peer, err := range p.source.Peers(ctx, discovery.PeerID(after)) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			v.Incomplete = "peers are missing, because lnetd did not list them in time"
			break
		}
		if n == peersPerPage {
			v.Next = last
			break
		}
		b.Add(&peer)
		n, last = n+1, peer.ID
	}
	picture := b.Picture()
	v.Peers, v.Title = picture.Peers, title(picture.Node)
	return v
}

func title(node lnet.NID) string {
	if node.IsZero() {
		return "lnetd"
	}
	return "lnetd on " + node.String()
}

// head returns the first elements of a list, at most n, and the number of the others.
func head[T any](list []T, n int) ([]T, int) {
	n = min(n, len(list))
	return list[:n], len(list) - n
}

// duration returns a duration in its two largest units.
func duration(d time.Duration) string {
	units := []struct {
		name string
		time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	var parts []string
	for _, u := range units {
		if n := d / u.Duration; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.Duration
		}
	}
	return cmp.Or(strings.Join(parts, " "), "0 s")
}
