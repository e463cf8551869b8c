//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"
)

// auditPolicy has the API servers record the requests of the manifests' accounts: account,
// request and answer, no contents.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:sigma-system", "system:serviceaccounts:sigma-mpa", "system:serviceaccounts:sigma-flow"]}
- {level: None}
`

// AuditDir holds the audit logs of all clusters since hack/e2e.sh last ran all tests.
func AuditDir() string { return filepath.Join(root, "out", "e2e", "audit") }

// auditFlags are those of run.sh for a cluster with an audit log. There are none for a
// former version: its programs would justify rights that the present ones do not need.
func auditFlags(t testing.TB) []string {
	t.Helper()
	if os.Getenv("SIGMA_BEFORE") != "" {
		return nil
	}
	require.NoError(t, os.MkdirAll(AuditDir(), 0o755))
	policy := filepath.Join(scratch(t), "audit.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	log := fmt.Sprintf("%s-%d-%d.jsonl", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid(), processes.Add(1))
	return []string{"-apiserver=--audit-policy-file=" + policy, "-apiserver=--audit-log-path=" + filepath.Join(AuditDir(), log)}
}

// A Right is the permission of an account by one verb of one rule.
type Right struct {
	Account   string // namespace/name
	Namespace string // empty = all
	Verb      string
	Resource  string // pods, deployments.apps, pods/status
	Name      string // of the one object; empty = all
	Roles     string // that grant it, those of one account together
}

func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Name != "" {
		s += " " + r.Name
	}
	return s
}

// Rights are those that manifests give to the accounts that they define, sorted. Their
// documents are YAML.
func Rights(documents string) ([]Right, error) {
	rules := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name of a role
	accounts := map[string]bool{}
	var bindings []rbacv1.RoleBinding // an empty namespace = all namespaces
	for _, text := range strings.Split(documents, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return nil, err
		}
		var err error
		switch key := head.Metadata.Namespace + "/" + head.Metadata.Name; head.Kind {
		case "ServiceAccount":
			accounts[key] = true
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole // a Role has the same fields
			err = yaml.Unmarshal([]byte(text), &role)
			rules[head.Kind+" "+key] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var b rbacv1.RoleBinding // and a ClusterRoleBinding those of this
			err = yaml.Unmarshal([]byte(text), &b)
			bindings = append(bindings, b)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
		}
	}
	roles := map[Right]map[string]bool{}
	for _, b := range bindings {
		role := b.RoleRef.Kind + " /" + b.RoleRef.Name
		if b.RoleRef.Kind == "Role" {
			role = "Role " + b.Namespace + "/" + b.RoleRef.Name
		}
		for _, subject := range b.Subjects {
			account := subject.Namespace + "/" + subject.Name
			if !accounts[account] {
				continue
			}
			for _, right := range expand(rules[role]) {
				right.Account, right.Namespace = account, b.Namespace
				if roles[right] == nil {
					roles[right] = map[string]bool{}
				}
				roles[right][b.RoleRef.Kind+" "+b.RoleRef.Name] = true
			}
		}
	}
	var rights []Right
	for right, by := range roles {
		right.Roles = strings.Join(slices.Sorted(maps.Keys(by)), ", ")
		rights = append(rights, right)
	}
	slices.SortFunc(rights, func(a, b Right) int {
		return strings.Compare(a.Account+a.Roles+a.Resource+a.Verb+a.Name, b.Account+b.Roles+b.Resource+b.Verb+b.Name)
	})
	return rights, nil
}

// expand makes one right of each verb, resource and name of rules.
func expand(rules []rbacv1.PolicyRule) (rights []Right) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						rights = append(rights, Right{Verb: verb, Resource: resourceOf(resource, "", group), Name: name})
					}
				}
			}
		}
	}
	return rights
}

func resourceOf(resource, subresource, group string) string {
	if before, after, ok := strings.Cut(resource, "/"); ok {
		resource, subresource = before, after
	}
	if group != "" {
		resource += "." + group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return resource
}

// A Request is one that an account made, or several alike.
type Request struct {
	Account, Namespace, Verb, Resource, Name string
	Refused                                  bool // by the authoriser
}

// Requests counts the requests of accounts in audit logs. A last line may be cut off by a
// kill.
func Requests(logs ...string) (map[Request]int, error) {
	requests := map[Request]int{}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			var e auditv1.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				if bytes.HasSuffix(text, lines.Bytes()) {
					break
				}
				return nil, fmt.Errorf("%s:%d: %w", log, n, err)
			}
			account, ok := strings.CutPrefix(e.User.Username, "system:serviceaccount:")
			if !ok {
				continue
			}
			r := Request{
				Account: strings.Replace(account, ":", "/", 1), Verb: e.Verb, Resource: e.RequestURI,
				Refused: e.Annotations["authorization.k8s.io/decision"] == "forbid",
			}
			if o := e.ObjectRef; o != nil {
				r.Resource, r.Namespace, r.Name = resourceOf(o.Resource, o.Subresource, o.APIGroup), o.Namespace, o.Name
			}
			requests[r]++
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", log, err)
		}
	}
	return requests, nil
}

// uses reports whether the right covers a request.
func (r Right) uses(q Request) bool {
	return !q.Refused && r.Account == q.Account && r.Verb == q.Verb && r.Resource == q.Resource &&
		(r.Namespace == "" || r.Namespace == q.Namespace) && (r.Name == "" || r.Name == q.Name)
}

// Unused are the rights that no request used.
func Unused(rights []Right, requests map[Request]int) []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool {
		for q := range requests {
			if r.uses(q) {
				return true
			}
		}
		return false
	})
}
