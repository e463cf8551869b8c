package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// servers are the names of each package that make a server or a listener without the bounds of internal/serve;
// "" is the import itself.
var servers = map[string][]string{
	"net/http":                   {"Server", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"},
	"net/http/httptest":          {"Server", "NewServer", "NewTLSServer", "NewUnstartedServer"},
	"net/http/cgi":               {""},
	"net/http/fcgi":              {""},
	"net/http/pprof":             {""},
	"net/rpc":                    {""},
	"net":                        {"Listen", "ListenTCP", "ListenUnix", "ListenConfig", "FileListener"},
	"crypto/tls":                 {"Listen", "NewListener"},
	"golang.org/x/net/http2":     {"Server"},
	"golang.org/x/net/http2/h2c": {""},
	"google.golang.org/grpc":     {"NewServer"},
	"github.com/nats-io/nats-server/v2/server": {"NewServer"},
}

// unbounded are uses of them outside internal/serve, with the reason.
var unbounded = map[string]string{
	"cmd/sigma-extender/expander.go: net.ListenConfig":                                    "for gRPC, of which plugins/expander bounds connections, calls and bytes",
	"plugins/expander/server.go: google.golang.org/grpc.NewServer":                        "gRPC needs HTTP/2; its options have the bounds, and callers wait for one another",
	"cmd/sigma-gate/main.go: net.ListenConfig":                                            "binds all addresses before it serves any; the pages are of internal/serve",
	"internal/train/remote/server.go: net.Listen":                                         "tries whether the port is free, and closes it",
	"internal/train/remote/server.go: github.com/nats-io/nats-server/v2/server.NewServer": "not HTTP; its options have the bounds",
	"flow/node/nodetest/testbed.go: net.ListenConfig":                                     "a peer of tests in a network of its own",
}

// TestServersAreBounded: every server of the product is one of internal/serve, so that connections, heads,
// bodies and times have bounds.
func TestServersAreBounded(t *testing.T) {
	for _, problem := range checkServers(t, tree, unbounded) {
		t.Error(problem)
	}
}

func TestPlantedServers(t *testing.T) {
	got := checkServers(t, planted(map[string]string{
		"a/a.go":              "package a\n\nimport \"net/http\"\n\nvar _ = &http.Server{}\n",
		"a/new.go":            "package a\n\nimport web \"net/http\"\n\nvar s = new(web.Server)\n\nfunc f() { _ = web.ListenAndServe(\":1\", nil) }\n",
		"a/windows.go":        "//go:build windows\n\npackage a\n\nimport \"net/http\"\n\nfunc f() { _ = http.Serve(nil, nil) }\n",
		"a/client.go":         "package a\n\nimport \"net/http\"\n\nvar _ = http.Client{}\nvar _ = http.ErrServerClosed\n",
		"a/other.go":          "package a\n\nimport http \"x/http\"\n\nvar _ = http.Server{}\n",
		"a/local.go":          "package a\n\nimport \"net\"\n\nfunc f(http struct{ Server int }) (net.Conn, int) { return nil, http.Server }\n",
		"a/a_test.go":         "package a\n\nimport \"net/http\"\n\nvar _ = &http.Server{}\n",
		"b/dot.go":            "package b\n\nimport . \"net/http\"\n\nvar _ Server\n",
		"b/grpc.go":           "package b\n\nimport (\n\t\"google.golang.org/grpc\"\n\t_ \"net/http/pprof\"\n)\n\nvar _ = grpc.NewServer()\n",
		"c/c.go":              "package c\n\nimport \"net\"\n\nfunc f() { _, _ = net.Listen(\"tcp\", \":1\") }\n",
		"d/d.go":              "package d\n\nimport \"sigs.k8s.io/controller-runtime/pkg/manager\"\n\nvar _ = manager.Options{}\n",
		"d/plain.go":          "package d\n\nimport \"sigs.k8s.io/controller-runtime\"\n\nvar _ = controllerruntime.Options{}\n",
		"d/right.go":          "package d\n\nimport ctrl \"sigs.k8s.io/controller-runtime\"\n\nvar _ = ctrl.Options{Metrics: off, HealthProbeBindAddress: none}\n",
		"d/pprof.go":          "package d\n\nimport ctrl \"sigs.k8s.io/controller-runtime\"\n\nvar _ = ctrl.Options{Metrics: off, HealthProbeBindAddress: none, PprofBindAddress: \":1\"}\n",
		"internal/serve/s.go": "package serve\n\nimport \"net/http\"\n\nvar _ = &http.Server{}\n",
		"hack/x/go.mod":       "module x\n",
		"hack/x/main.go":      "package main\n\nimport \"net/http\"\n\nvar _ = &http.Server{}\n",
	}), map[string]string{"c/c.go: net.Listen": "a reason", "c/c.go: net.ListenTCP": "none any more"})
	want := []string{
		"a/a.go: net/http.Server: serve by internal/serve, which bounds connections, heads and times",
		"a/new.go: net/http.ListenAndServe: serve by",
		"a/new.go: net/http.Server: serve by",
		"a/windows.go: net/http.Serve: serve by",
		"b/dot.go: net/http.: serve by",
		"b/grpc.go: google.golang.org/grpc.NewServer: serve by",
		"b/grpc.go: net/http/pprof.: serve by",
		"c/c.go: net.ListenTCP: it is not there: take it off the exceptions",
		"d/d.go: sigs.k8s.io/controller-runtime/pkg/manager.Options: serve by",
		"d/plain.go: sigs.k8s.io/controller-runtime.Options: serve by",
		"d/pprof.go: sigs.k8s.io/controller-runtime.Options: serve by",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkServers returns the servers and listeners of the product outside internal/serve, but for the exceptions,
// and exceptions that nothing needs.
func checkServers(t *testing.T, tree fs.FS, except map[string]string) (problems []string) {
	t.Helper()
	found := map[string]bool{}
	for _, p := range readPages(t, tree) {
		pkg := path.Dir(p.name)
		if strings.HasSuffix(p.name, "_test.go") || strings.HasPrefix(p.name, "hack/") || strings.HasPrefix(p.name, "lab/") || pkg == "internal/serve" {
			continue
		}
		for _, use := range serving(t, p) {
			found[p.name+": "+use] = true
		}
	}
	for use := range found {
		if except[use] == "" {
			problems = append(problems, use+": serve by internal/serve, which bounds connections, heads and times")
		}
	}
	for use := range except {
		if !found[use] {
			problems = append(problems, use+": it is not there: take it off the exceptions")
		}
	}
	slices.Sort(problems)
	return problems
}

// serving returns the names in a file that make a server, with the import path of each.
func serving(t *testing.T, p page) (uses []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), p.name, strings.Join(p.lines, "\n"), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{} // name → path
	for _, spec := range file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(path.Base(from), "-", "")
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = from
		if names := servers[from]; slices.Contains(names, "") || len(names) > 0 && name == "." {
			uses = append(uses, from+".")
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if from := pathOf(imports, n); slices.Contains(servers[from], n.Sel.Name) {
				uses = append(uses, from+"."+n.Sel.Name)
			}
		case *ast.CompositeLit:
			if use := manager(imports, n); use != "" {
				uses = append(uses, use)
			}
		}
		return true
	})
	return uses
}

// pathOf returns the import path of the package that a selector names; "" where it is no package.
func pathOf(imports map[string]string, selector *ast.SelectorExpr) string {
	if x, ok := selector.X.(*ast.Ident); ok {
		return imports[x.Name]
	}
	return ""
}

// manager returns the options of a manager of controller-runtime that serves pages of its own: it does so
// unless they say where.
func manager(imports map[string]string, literal *ast.CompositeLit) string {
	selector, ok := literal.Type.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Options" {
		return ""
	}
	from := pathOf(imports, selector)
	if from != "sigs.k8s.io/controller-runtime" && from != "sigs.k8s.io/controller-runtime/pkg/manager" {
		return ""
	}
	keys := map[string]bool{}
	for _, e := range literal.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			keys[fmt.Sprint(pair.Key)] = true
		}
	}
	if keys["Metrics"] && keys["HealthProbeBindAddress"] && !keys["PprofBindAddress"] {
		return ""
	}
	return from + ".Options"
}
