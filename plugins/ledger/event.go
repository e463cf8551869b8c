package ledger

import "github.com/sigma-scheduler/sigma/binpack/policy"

// An Event is one line of the decision log.
type Event struct {
	Seq  uint64  `json:"seq"`
	Time float64 `json:"time"` // seconds since 1970
	Kind Kind    `json:"kind"`

	Start    *Start             `json:"start,omitempty"`
	Node     string             `json:"node,omitempty"`
	Machine  *Machine           `json:"machine,omitempty"`
	App      string             `json:"app,omitempty"`
	Spec     *App               `json:"spec,omitempty"`
	Rules    []Rule             `json:"rules,omitempty"`
	Reset    bool               `json:"reset,omitempty"`    // of rule: those before are forgotten
	Expected map[string]float64 `json:"expected,omitempty"` // per app; negative = not known any more
	Role     Role               `json:"role,omitempty"`
	Policy   *policy.Object     `json:"policy,omitempty"` // nil = there is none any more

	Pod       string `json:"pod,omitempty"`     // namespace/name
	UID       string `json:"uid,omitempty"`     // in a recording also of a node
	Created   int64  `json:"created,omitempty"` // of place and arrive: when the pod was made, in seconds since 1970
	*Decision        // of decide
}

// Kind says what happened.
type Kind string

// The kinds of events. What each of them carries stands beside it.
const (
	KindStart    Kind = "start"       // Start: all before is forgotten
	KindNode     Kind = "node"        // Node, Machine: it came, or is another now
	KindApp      Kind = "app"         // App, Spec: it came, or its constraints changed
	KindForget   Kind = "forget"      // Node or App
	KindRule     Kind = "rule"        // Rules, Reset: these are there too, or instead
	KindForecast Kind = "forecast"    // Expected: those that changed
	KindPolicy   Kind = "policy"      // Role, Policy
	KindArrive   Kind = "arrive"      // Pod, UID, App: it asks for a machine; no news after the first time
	KindPlace    Kind = "place"       // Pod, UID, App, Node: found there, somebody else's decision
	KindDecide   Kind = "decide"      // Pod, UID, App, Node, Decision
	KindFailed   Kind = "bind-failed" // UID: a decision came to nothing
	KindRemove   Kind = "remove"      // UID: the pod is gone
)

// Role is the part that a policy plays.
type Role string

// The roles. BestFit is not loaded: it is what everything falls back to.
const (
	Primary Role = "primary"
	Canary  Role = "canary"
	BestFit Role = "bestfit"
)

// A Start opens a log: a scheduler's profile begins to work.
type Start struct {
	Version int    `json:"version"` // of the log's format
	Profile string `json:"profile,omitempty"`
	Fleet   string `json:"fleet"` // open or fixed
	// Units of the dimensions whose amounts are not whole numbers of 1: cpu is
	// counted in m.
	Units map[string]string `json:"units,omitempty"`
	// AppLabel is the label whose value is a pod's app. Only recordings have it.
	AppLabel string `json:"appLabel,omitempty"`
}

// Version is the format of the logs that this package writes. It reads version 1
// too, which names the limits of apps max_per_machine and spread_min.
const Version = 2

// A Machine is a node as a policy sees it.
type Machine struct {
	// Refuses are the selectors of apps that may not use the machine.
	Refuses  []string         `json:"refuses,omitempty"`
	Capacity map[string]int64 `json:"capacity"` // in units; what pods that do not move take is not part of it
	Cost     float64          `json:"cost"`
	Cordoned bool             `json:"cordoned,omitempty"` // it takes nothing and does not count
	// Labels are those by which people tell kinds of nodes apart: node pool,
	// instance type, zone. No decision depends on them.
	Labels map[string]string `json:"labels,omitempty"`
}

// NamingLabels are the labels of nodes that a Machine has, the most telling first.
var NamingLabels = []string{
	"eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "karpenter.sh/nodepool",
	"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "topology.kubernetes.io/zone",
}

// An App is a set of pods of equal demand.
type App struct {
	Group         string           `json:"group"`
	Selector      string           `json:"selector,omitempty"` // machines that refuse it are closed
	Demand        map[string]int64 `json:"demand"`
	MaxPerMachine int32            `json:"maxPerMachine,omitempty"` // of its group, 0 = no limit
	SpreadMin     int32            `json:"spreadMin,omitempty"`
}

// A Rule forbids a placement after which a machine holds at least one of App and
// more than Max of Other. Both are groups.
type Rule struct {
	App   string `json:"app"`
	Other string `json:"other"`
	Max   int32  `json:"max"`
}

// A Decision is what is said of a pod's placement beside where it went.
type Decision struct {
	Request      string `json:"request,omitempty"` // the workload that asked for it
	PolicyDigest string `json:"policyDigest,omitempty"`
	Mode         string `json:"mode,omitempty"`
	Cause        string `json:"cause"`
	// Infeasible are machines that our own model allowed and other filters
	// refused, Extra those that it was the other way round.
	Infeasible []string `json:"infeasible,omitempty"`
	Extra      []string `json:"extra,omitempty"`
	// Choice is what was chosen for a pod that went elsewhere: the policy only
	// watches, or other scores outvoted it.
	Choice   string `json:"choice,omitempty"`
	RunnerUp string `json:"runnerUp,omitempty"`
	// For people; nothing reads them.
	Score         float64 `json:"score,omitempty"`
	RunnerUpScore float64 `json:"runnerUpScore,omitempty"`
}

// The causes of decisions. A fallback carries its reason behind the colon.
const (
	CausePolicy    = "policy"
	CauseSingle    = "single"    // one node was feasible: nothing was asked
	CauseNominated = "nominated" // preemption had made room on a node
	CauseNeutral   = "neutral"   // the policy does not decide on this workload
	CauseFallback  = "fallback:"
)
