package endpoint

import (
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// The endpoints, in the order of docs/control.md.
var (
	Version = get[api.Version]("/v1/version", "version of the daemon").withoutLNet()

	Nets = get[api.Nets]("/v1/nets", "nets and NIs with counters", "net")

	Configuration       = get[api.Configuration]("/v1/configuration", "the configuration of the node")
	ChangeConfiguration = document[api.ConfigurationChange, api.ConfigurationChanged]("/v1/configuration",
		"change it by a document, as a whole or not at all, or say what that would do").
		takes("`name`, `text`, `mode` (`add`, `delete`, `replace`), `wait`, `dry`")
	Described = document[api.Document, api.Described]("/v1/configuration/show", "the existing objects that a document describes")
	Errands   = document[api.Document, api.Errands]("/v1/configuration/errands", "the pings and discoveries in a document").withoutLNet()

	SetLNet = change[api.LNet]("/v1/lnet", "configure or unconfigure LNet").withoutLNet()

	AddNet = post[api.NetAddition, api.NetAdded]("/v1/nets", "add NIs, all of them or none; the answer may have `warnings`").
		takes("`net` and `interfaces`, or `nid`, or `ip2nets`; tunables")
	DeleteNet     = remove[api.NetDeletion]("/v1/nets", "delete NIs").takes("`net`, `interfaces`, or `nid`")
	SetNITunables = change[api.NITunables]("/v1/nets/tunables", "change the settings of NIs").
			takes("`nid`, `net` or `all`, and tunables of the driver, such as `conns_per_peer`; `net`, `lnd_timeout`")
	SetPeerState = change[api.PeerState]("/v1/peers/state", "set the state flags of peers, for tests").takes("`nid` or `all`, `state`")
	Recovery     = get[api.Recovery]("/v1/recovery", "NIDs in recovery, which are pinged until they are healthy")
	CPTs         = get[api.CPTs]("/v1/cpts", "CPU partitions of NIDs", "nids")
	NUMA         = get[api.NUMA]("/v1/numa", "CPU partitions of the machine, and their distances")
	SetNIHealth  = change[api.HealthChange]("/v1/nets/health", "set the health of NIs").takes("`nid` or `all`, `value`")

	Peers = get[api.Peers]("/v1/peers", "peers and their NIDs", "nid", "page", "detail").
		takes("`nid`, any of the peer's; or `page` and `detail`")
	AddPeer       = change[api.PeerAddition]("/v1/peers", "create a peer, or add NIDs")
	DeletePeer    = remove[api.PeerDeletion]("/v1/peers", "delete a peer, or NIDs")
	SetPeerHealth = change[api.HealthChange]("/v1/peers/health", "set the health of peers' NIDs").takes("`nid` or `all`, `value`")

	Ping     = post[api.PingRequest, api.PingReply]("/v1/ping", "ping nodes")
	Discover = post[api.DiscoverRequest, api.PingReply]("/v1/discover", "discover peers")

	Routes       = get[api.Routes]("/v1/routes", "routes", "net", "gateway", "hops", "priority")
	AddRoutes    = change[api.RouteAddition]("/v1/routes", "add a route through each gateway")
	DeleteRoutes = remove[api.RouteDeletion]("/v1/routes", "delete routes")

	Routing    = get[api.Routing]("/v1/routing", "whether the node forwards, and its buffers")
	SetRouting = change[api.RoutingChange]("/v1/routing", "enable or disable forwarding, or set numbers of buffers").
			takes("`enabled`, or `tiny`, `small`, `large`")

	Globals    = get[api.Globals]("/v1/globals", "parameters")
	SetGlobals = change[api.GlobalsChange]("/v1/globals", "change parameters").
			takes("the parameters to change, with the names of `lnetctl`")

	Log    = get[api.Log]("/v1/log", "log level and format").withoutLNet()
	SetLog = change[api.LogChange]("/v1/log", "change the level, at once").
		takes("`level`: `debug`, `info`, `warn` or `error`").withoutLNet()

	UDSP       = get[api.UDSP]("/v1/udsp", "user policies by place", "idx")
	AddUDSP    = change[api.UDSPRule]("/v1/udsp", "add one").takes("`src`, `dst`, `rte`, `priority`, `idx`")
	DeleteUDSP = remove[api.UDSPDeletion]("/v1/udsp", "delete one or all").takes("`idx` or `all`")

	Selection    = get[api.Selection]("/v1/selection", "selection rules by id", "type", "id")
	AddSelection = change[api.SelectionRule]("/v1/selection", "add one").
			takes("`type`, `net`, `nid` or `local` and `remote`, `priority`, `id`")
	DeleteSelection = remove[api.SelectionRule]("/v1/selection", "delete one").takes("`type`, and `id`, patterns or both")
	Explain         = get[api.Explanation]("/v1/explain", "the path that a message would take, and why", "nid", "source", "portal")

	Faults       = get[api.FaultRules]("/v1/faults", "fault rules, the newest first", "kind").takes("`kind`: `drop` or `delay`")
	AddFault     = change[api.FaultRule]("/v1/faults", "add one").takes("`kind`, `source`, `dest`, `rate` or `interval`, ...")
	DeleteFaults = remove[api.FaultDeletion]("/v1/faults", "delete some or all of a kind").
			takes("`kind`, and `source` and `dest` or `all`")
	ResetFaults = change[api.Done]("/v1/faults/reset", "reset their counters to zero")

	Clients    = get[api.Clients]("/v1/clients", "processes whose transfer machines lnetd hosts, and proxies").withoutLNet()
	DropClient = remove[api.ClientDrop]("/v1/clients", "cut one off, without waiting for its end").withoutLNet()

	LstStatus = get[api.LstStatus]("/v1/lst", "LNet selftest on this node; its commands are in [selftest.md](selftest.md)").withoutLNet()

	Stats      = get[api.Stats]("/v1/stats", "the node's counters, drops and refusals by reason")
	ResetStats = change[api.Done]("/v1/stats/reset", "reset them to zero, and those of NIs and peers")

	Events = stream("/v1/events", "application/jsonl", "what has happened to the node, a line for each event", "since", "kind", "follow").
		takes("`since`, a time as in RFC 3339; `kind`, several with commas in between; `follow`: `true` or `false`").withoutLNet()
	Capture = stream("/v1/capture", "application/x-pcapng", "record LNet messages, in the format pcapng",
		"nid", "net", "portal", "type", "payload", "count", "duration").
		takes("lists with commas of `nid`, `net`, `portal` and `type`; `payload`, `count`; `duration`, such as `10s`")
)

// LstPath is the beginning of the paths of all commands of lst. The name of the command follows.
const LstPath = "/v1/lst/"

// The commands of lst, in the order of docs/selftest.md.
var (
	LstEnable = lst[api.LstBounds, api.Done]("enable", "enable selftest on this node")
	// LstDisable is served without LNet, because selftest may still be enabled then.
	LstDisable = lst[api.LstDisable, api.Done]("disable", "disable selftest on this node").withoutLNet()

	LstNewSession  = lst[api.LstNewSession, api.LstSession]("new_session", "create a session")
	LstShowSession = lst[api.Done, api.LstSession]("show_session", "the session, whatever its key")
	LstHoldSession = lst[api.Lst, api.Done]("hold_session",
		"start the response at once and finish it when the session ends; if the connection closes, the session ends")
	LstEndSession = lst[api.Lst, api.Done]("end_session", "end the session")
	LstPing       = lst[api.LstPing, report.Result]("ping", "the session that each node takes part in")

	LstAddGroup    = lst[api.LstAddGroup, report.GroupAddition]("add_group", "create a group, and invite its nodes to the session")
	LstUpdateGroup = lst[api.LstUpdateGroup, report.GroupChange]("update_group", "invite nodes of a group again, or remove nodes").
			takes("`key`, `name`, and `refresh`, `clean` or `remove`")
	LstGroups      = lst[api.Lst, api.LstNames]("list_groups", "the names of the groups")
	LstGroup       = lst[api.LstNamed, report.GroupInfo]("list_group", "one group and its nodes")
	LstDeleteGroup = lst[api.LstNamed, report.Result]("del_group", "delete a group")

	LstAddBatch = lst[api.LstNamed, api.Done]("add_batch", "create a batch")
	LstAddTest  = lst[api.LstTest, report.TestAddition]("add_test", "add a test to a batch")
	LstBatches  = lst[api.Lst, api.LstNames]("list_batches", "the names of the batches")
	LstBatch    = lst[api.LstNamed, report.BatchInfo]("list_batch", "one batch, its tests and its nodes")
	LstRun      = lst[api.LstRun, report.Result]("run", "start a batch")
	LstQuery    = lst[api.LstQuery, report.QueryResult]("query", "the nodes that still run a batch or a test")
	LstStop     = lst[api.LstStop, report.Result]("stop", "stop a batch")

	LstStat = lst[api.LstStat, report.Sample]("stat", "counters of nodes")
)
