//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/lab/podspace"
)

// rare are rights that some account needs where no test, or not every run of it, goes, with
// the reason.
var rare = map[string]string{
	"patch events":                                                 "of an event that repeats",
	"get deployments.apps":                                         ofWorkload,
	"get statefulsets.apps":                                        ofWorkload,
	"patch deployments.apps/status":                                ofWorkload,
	"patch statefulsets.apps/status":                               ofWorkload,
	"patch rebalances.sigma-scheduler.io/status":                   "where a cluster has a Rebalance",
	"patch placementpolicies.sigma-scheduler.io general-candidate": "where a week finds another policy than the week before",
	"patch pods":                                                   "TestMPALimits runs the updater in one process with the others",
	"list resourcequotas":                                          "of a namespace in which a resize was refused",
	"list events":                                                  "why a StatefulSet's pods are not made",
	"get multidimpodautoscalers.autoscaling.sigma-scheduler.io":    "reads an object again whose status somebody else has written",
	"list verticalpodautoscalers.autoscaling.k8s.io":               "where a cluster has that kind",
	"watch verticalpodautoscalers.autoscaling.k8s.io":              "where a cluster has that kind",
	"patch scalingpolicies.autoscaling.sigma-scheduler.io/status":  "where a cluster has a ScalingPolicy",
	"patch mutatingwebhookconfigurations.admissionregistration.k8s.io sigma-mpa": noCertificate,
	"update secrets sigma-mpa-webhook":                                           noCertificate,
	"create configmaps sigma-evictions":                                          "part of the patch that creates it, and not a request of its own",
	"create jobs.batch":                                                          retrains,
	"get jobs.batch":                                                             retrains,
	"get cronjobs.batch sigma-mpa-retraining":                                    retrains,
	"delete scalingpolicies.autoscaling.sigma-scheduler.io":                      "where Jobs have written more than three policies for an object",
	"get leases.coordination.k8s.io sigma-mpa-all":                               oneForAll,
	"update leases.coordination.k8s.io sigma-mpa-all":                            oneForAll,
	"get leases.coordination.k8s.io sigma-mpa-recommender":                       oneForAll,
	"update leases.coordination.k8s.io sigma-mpa-recommender":                    oneForAll,
	"get leases.coordination.k8s.io sigma-mpa-updater":                           oneForAll,
	"update leases.coordination.k8s.io sigma-mpa-updater":                        oneForAll,
}

const (
	retrains      = "where the component retraining is: TestMPARetraining runs the recommender with other rights"
	oneForAll     = "one Role names the leases of all parts"
	ofWorkload    = "records the eviction of a pod of such a workload"
	noCertificate = "the first webhook makes the certificate for all"
)

// upstreams is the role of what upstream's scheduler asks for: requireNoMoreThanUpstream
// compares it with upstream's own.
const upstreams = "ClusterRole sigma-scheduler"

// TestRightsUsed compares the rights of the manifests with what the programs of all tests
// asked for. It comes last: the API servers of the tests before have written the audit logs. What was
// refused fails after any test; what is never used is known after all of them.
func TestRightsUsed(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join(e2e.AuditDir(), "*.jsonl"))
	require.NoError(t, err)
	if len(logs) == 0 {
		t.Skip("no test has run since out/e2e was empty")
	}
	requests, err := e2e.Requests(logs...)
	require.NoError(t, err)
	for q, n := range requests {
		granted := q // an API server that has just started, or a role that goes, refuses what it allows at other times
		granted.Refused = false
		if q.Refused && requests[granted] == 0 {
			t.Errorf("%s was refused, %d times: %s %s %s in namespace %q", q.Account, n, q.Verb, q.Resource, q.Name, q.Namespace)
		}
	}
	if _, err := os.Stat(filepath.Join(e2e.AuditDir(), "whole")); err != nil {
		t.Log("which rights are never used is known after hack/e2e.sh without arguments")
		return
	}

	retraining, err := os.ReadFile(filepath.Join(repository, "manifests", "mpa", "retraining", "rbac.yaml")) // of a component
	require.NoError(t, err)
	limits, err := os.ReadFile(filepath.Join(repository, "manifests", "mpa", "limits", "rbac.yaml")) // of another
	require.NoError(t, err)
	knative, err := os.ReadFile(filepath.Join(repository, "manifests", "mpa", "knative", "rbac.yaml"))
	require.NoError(t, err)
	pilot, err := os.ReadFile(filepath.Join(repository, "manifests", "components", "pilot", "rbac.yaml"))
	require.NoError(t, err)
	documents := []string{string(retraining), string(limits), string(pilot)}
	if len(podspace.Missing()) == 0 { // else TestKnative was skipped
		documents = append(documents, string(knative))
	}
	for _, folder := range []string{"overlays/second-scheduler", "overlays/extender", "mpa", "mpa/apart", "training", "overlays/flow-policy"} {
		out, err := exec.Command(e2e.Program(t, "kubectl"), "kustomize", filepath.Join(repository, "manifests", folder)).Output()
		require.NoError(t, err, folder)
		documents = append(documents, string(out))
	}
	rights, err := e2e.Rights(strings.Join(documents, "\n---\n"))
	require.NoError(t, err)
	for _, problem := range judgeRights(t, rights, requests, rare) {
		t.Error(problem)
	}
}

// judgeRights returns rights that are never used and not known to be rare, and exceptions
// for rights that nobody has.
func judgeRights(t *testing.T, rights []e2e.Right, requests map[e2e.Request]int, rare map[string]string) (problems []string) {
	t.Helper()
	var table strings.Builder
	unused := e2e.Unused(rights, requests)
	known := map[string]bool{}
	of := map[string][2]int{} // account → rights, unused ones
	for _, r := range rights {
		known[r.String()] = true
		n := of[r.Account]
		of[r.Account] = [2]int{n[0] + 1, n[1]}
	}
	for _, r := range unused {
		n := of[r.Account]
		of[r.Account] = [2]int{n[0], n[1] + 1}
		why := rare[r.String()]
		watch := r
		watch.Verb = "watch"
		switch {
		case r.Roles == upstreams:
			why = "upstream asks for it"
		case r.Verb == "list" && slices.Contains(rights, watch) && !slices.Contains(unused, watch):
			why = "the watch began with a list; where an API server cannot do that, a request does"
		}
		if why == "" {
			problems = append(problems, fmt.Sprintf("%s never used its right to %s (%s)", r.Account, r, r.Roles))
		}
		fmt.Fprintf(&table, "%-35s never %-60s %-40s %s\n", r.Account, r, r.Roles, why)
	}
	for _, account := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&table, "%-35s %d rights, %d never used\n", account, of[account][0], of[account][1])
	}
	for name := range rare {
		if !known[name] {
			problems = append(problems, fmt.Sprintf("nobody has the right to %s: take it off the list", name))
		}
	}
	slices.Sort(problems)
	t.Logf("rights and their use\n%s", table.String())
	return problems
}

func TestPlantedRights(t *testing.T) {
	const documents = `
kind: ServiceAccount
metadata: {name: a, namespace: s}
---
kind: ServiceAccount
metadata: {name: b, namespace: s}
---
kind: ClusterRole
metadata: {name: all}
rules:
- {apiGroups: [""], resources: [pods, pods/status], verbs: [list, patch]}
- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
- {apiGroups: [apps], resources: [deployments/scale], verbs: [update]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {kind: ClusterRole, name: all}
subjects: [{kind: ServiceAccount, name: a, namespace: s}, {kind: ServiceAccount, name: foreign, namespace: s}]
---
kind: Role
metadata: {name: lease, namespace: s}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [one, two], verbs: [get]}
---
kind: RoleBinding
metadata: {name: lease, namespace: s}
roleRef: {kind: Role, name: lease}
subjects: [{kind: ServiceAccount, name: a, namespace: s}, {kind: ServiceAccount, name: b, namespace: s}]
`
	rights, err := e2e.Rights(documents)
	require.NoError(t, err)
	require.Len(t, rights, 11)
	line := func(account, verb, ref, decision string) string {
		return fmt.Sprintf(`{"user":{"username":"system:serviceaccount:s:%s"},"verb":%q,"requestURI":"/x","objectRef":{%s},"annotations":{"authorization.k8s.io/decision":%q}}`,
			account, verb, ref, decision) + "\n"
	}
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	require.NoError(t, os.WriteFile(log, []byte(
		line("a", "watch", `"resource":"nodes"`, "allow")+line("a", "list", `"resource":"pods"`, "allow")+line("a", "list", `"resource":"pods","namespace":"s"`, "allow")+
			line("a", "patch", `"resource":"pods","subresource":"status","name":"p","namespace":"x"`, "allow")+
			line("a", "update", `"resource":"deployments","subresource":"scale","apiGroup":"apps"`, "forbid")+
			line("a", "get", `"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"s","name":"one"`, "allow")+
			line("a", "get", `"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"other","name":"two"`, "allow")+
			line("b", "get", `"resource":"leases","apiGroup":"coordination.k8s.io","namespace":"s","name":"one"`, "allow")+
			`{"user":{"username":"system:servi`), 0o600))
	requests, err := e2e.Requests(log)
	require.NoError(t, err)
	require.Equal(t, 1, requests[e2e.Request{Account: "s/a", Verb: "update", Resource: "deployments.apps/scale", Refused: true}])
	require.Equal(t, []string{
		"nobody has the right to get leases.coordination.k8s.io three: take it off the list",
		"s/a never used its right to get leases.coordination.k8s.io two (Role lease)", // another namespace's is not it
		"s/a never used its right to list pods/status (ClusterRole all)",
		"s/a never used its right to update deployments.apps/scale (ClusterRole all)",
		"s/b never used its right to get leases.coordination.k8s.io two (Role lease)",
	}, judgeRights(t, rights, requests, map[string]string{"patch pods": "rare", "get leases.coordination.k8s.io three": "gone"}))

	require.NoError(t, os.WriteFile(log, []byte("{}\nnot JSON\n{}\n"), 0o600))
	_, err = e2e.Requests(log)
	require.ErrorContains(t, err, log+":2: ")
}
