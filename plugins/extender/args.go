package extender

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	// maxNodes bounds the nodes of a call: several times the maximum of
	// Kubernetes.
	maxNodes = 1 << 16
	// maxPodValues bounds the values of a pod. One of two bytes becomes hundreds
	// when it is decoded.
	maxPodValues = 1 << 14
)

// args are the arguments of a call.
type args struct {
	pod   *v1.Pod
	names []string   // of the nodes
	nodes []sentNode // in addition to names, if the scheduler sent nodes; nil if it sent names
}

// decode reads an [extenderv1.ExtenderArgs]. Of nodes it reads the names only.
func decode(text []byte) (*args, error) {
	var sent struct {
		Pod       json.RawMessage
		Nodes     *sentNodes
		NodeNames *[]string
	}
	no := func(format string, parts ...any) error {
		return &httpError{http.StatusBadRequest, fmt.Sprintf(format, parts...)}
	}
	const other = "the request is no ExtenderArgs: %v"
	if err := json.Unmarshal(text, &sent); err != nil {
		return nil, no(other, err)
	}
	a := &args{}
	if n := bytes.Count(sent.Pod, []byte(",")); n >= maxPodValues {
		return nil, no("the pod has more than %d values", maxPodValues)
	}
	if sent.Pod != nil {
		if err := json.Unmarshal(sent.Pod, &a.pod); err != nil {
			return nil, no(other, err)
		}
	}
	switch {
	case a.pod == nil:
		return nil, no("Pod is missing")
	case a.pod.UID == "":
		return nil, no("Pod.metadata.uid is missing")
	case sent.NodeNames == nil && sent.Nodes == nil:
		return nil, no("NodeNames and Nodes are missing")
	case sent.NodeNames != nil:
		a.names = *sent.NodeNames
	default:
		a.nodes = slices.Concat([]sentNode{}, sent.Nodes.Items) // not nil
		for i := range a.nodes {
			a.names = append(a.names, a.nodes[i].name)
		}
	}
	if len(a.names) > maxNodes {
		return nil, no("%d nodes are more than %d", len(a.names), maxNodes)
	}
	return a, nil
}

// filterResult is an [extenderv1.ExtenderFilterResult].
type filterResult struct {
	Nodes                      *sentNodes
	NodeNames                  *[]string
	FailedAndUnresolvableNodes extenderv1.FailedNodesMap
}

// sentNodes is a [v1.NodeList] of nodes that are returned unchanged.
type sentNodes struct {
	Items []sentNode `json:"items"`
}

// sentNode is a node as it was sent.
type sentNode struct {
	name string
	text []byte
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *sentNode) UnmarshalJSON(text []byte) error {
	var o struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	n.name, n.text = o.Metadata.Name, bytes.Clone(text)
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (n *sentNode) MarshalJSON() ([]byte, error) { return n.text, nil }
