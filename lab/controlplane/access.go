package controlplane

import (
	"bytes"
	"encoding/csv"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// writeKeys writes the API server's certificate with its authority's and the key, and the key that service
// accounts' tokens are signed with. It returns the certificates; the authority's key is kept nowhere.
func writeKeys(dir string) ([]byte, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"})
	if err != nil {
		return nil, err
	}
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"ca.crt": chain, "apiserver.crt": chain, "apiserver.key": key, "service-account.key": accounts} {
		if err := writeFile(filepath.Join(dir, name), content); err != nil {
			return nil, err
		}
	}
	return chain, nil
}

// writeAccess writes the token file and a kubeconfig for each of its users. It
// returns the administrator's token.
func writeAccess(dir, url string, authority []byte) (admin string, err error) {
	var table [][]string
	for _, u := range []struct{ file, name, group string }{
		{"scheduler.kubeconfig", "system:kube-scheduler", ""},
		{"controller-manager.kubeconfig", "system:kube-controller-manager", ""},
		{"kubeconfig", "admin", "system:masters"},
	} {
		admin = string(uuid.NewUUID())
		table = append(table, []string{admin, u.name, u.name, u.group})
		config := clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"controlplane": {Server: url, CertificateAuthorityData: authority}},
			AuthInfos:      map[string]*clientcmdapi.AuthInfo{u.name: {Token: admin}},
			Contexts:       map[string]*clientcmdapi.Context{"controlplane": {Cluster: "controlplane", AuthInfo: u.name}},
			CurrentContext: "controlplane",
		}
		if err := clientcmd.WriteToFile(config, filepath.Join(dir, u.file)); err != nil {
			return "", err
		}
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(table); err != nil {
		return "", err
	}
	return admin, writeFile(filepath.Join(dir, "tokens.csv"), text.Bytes())
}
