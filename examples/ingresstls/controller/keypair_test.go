// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/examples/ingresstls/ca"
)

// material is what the tests below make Secrets of.
type material struct {
	crt, key, issuer []byte // a pair, and the certificate of its issuer
	other            []byte // the key of another certificate
	ed25519          []byte // a key of another kind
}

func newMaterial(t *testing.T) material {
	t.Helper()
	authority, err := ca.New()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now().Add(time.Hour), "a.test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := authority.Issue(time.Now().Add(time.Hour), "a.test")
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return material{pair[corev1.TLSCertKey], pair[corev1.TLSPrivateKeyKey], authority.PEM(), other[corev1.TLSPrivateKeyKey], block("PRIVATE KEY", der)}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func der(data []byte) []byte { b, _ := pem.Decode(data); return b.Bytes }

func retyped(data []byte, kind string) []byte { return block(kind, der(data)) }

func inBase64(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data)) }

func inUTF16(data []byte) (out []byte) {
	for _, unit := range utf16.Encode([]rune(string(data))) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return out
}

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestUnusablePair: each cause has a text of its own, which quotes nothing of the Secret.
func TestUnusablePair(t *testing.T) {
	m := newMaterial(t)
	quoted := []byte(canary)
	for name, tc := range map[string]struct {
		crt, key []byte
		want     string
	}{
		"certificate missing":         {nil, m.key, "tls.crt is missing or empty"},
		"key missing":                 {m.crt, nil, "tls.key is missing or empty"},
		"certificate empty":           {[]byte{}, m.key, "tls.crt is missing or empty"},
		"both missing":                {nil, nil, "tls.crt is missing or empty; tls.key is missing or empty"},
		"swapped":                     {m.key, m.crt, "tls.crt has the private key and tls.key the certificate: swap them"},
		"certificate is no PEM":       {quoted, m.key, `tls.crt is not a PEM-encoded certificate: it has no line "-----BEGIN CERTIFICATE-----"`},
		"key is no PEM":               {m.crt, quoted, `tls.key is not a PEM-encoded private key: it has no line "-----BEGIN PRIVATE KEY-----"`},
		"certificate in DER":          {der(m.crt), m.key, "tls.crt is a certificate in DER: convert it to PEM"},
		"key in DER":                  {m.crt, der(m.key), "tls.key is a private key in DER: convert it to PEM"},
		"certificate in base64 twice": {inBase64(m.crt), m.key, "tls.crt is encoded in base64 twice: encode it once, or use stringData"},
		"key in base64 twice":         {m.crt, inBase64(m.key), "tls.key is encoded in base64 twice: encode it once, or use stringData"},
		"base64 without lines":        {inBase64(der(m.crt)), m.key, `tls.crt is a certificate in base64 without its PEM lines: add "-----BEGIN CERTIFICATE-----" and "-----END CERTIFICATE-----"`},
		"UTF-16":                      {m.crt, inUTF16(m.key), "tls.key is in UTF-16: save it as UTF-8 or ASCII"},
		"escaped line breaks":         {bytes.ReplaceAll(m.crt, []byte("\n"), []byte(`\n`)), m.key, `tls.crt has the characters "\n" in the place of line breaks`},
		"certificate cut off":         {m.crt[:len(m.crt)/2], m.key, "the PEM block of tls.crt is cut off or malformed"},
		"key cut off":                 {m.crt, m.key[:len(m.key)/2], "the PEM block of tls.key is cut off or malformed"},
		"certificate malformed":       {block("CERTIFICATE", quoted), m.key, "certificate 1 of tls.crt is malformed: its PEM block holds no X.509 certificate"},
		"issuer malformed, wrong key": {joined(m.crt, block("CERTIFICATE", quoted)), m.other, "certificate 2 of tls.crt is malformed: its PEM block holds no X.509 certificate"},
		"key malformed":               {m.crt, block("PRIVATE KEY", quoted), "tls.key is malformed, or of an unknown kind: its PEM block holds no RSA, ECDSA or Ed25519 key"},
		"certificate request":         {retyped(m.crt, "CERTIFICATE REQUEST"), m.key, "tls.crt has a certificate request, and no certificate"},
		"public key":                  {m.crt, retyped(m.key, "PUBLIC KEY"), "tls.key has a public key, and no private key"},
		"only the certificate, twice": {m.crt, m.crt, "tls.key has a certificate, and no private key"},
		"only the key, twice":         {m.key, m.key, "tls.crt has a private key, and no certificate"},
		"another block":               {block(canary, quoted), m.key, "tls.crt has PEM blocks, and none of the type CERTIFICATE"},
		"encrypted key, PKCS #8":      {m.crt, block("ENCRYPTED PRIVATE KEY", quoted), "tls.key is encrypted with a passphrase: store it without one (openssl pkey)"},
		"encrypted key, old":          {m.crt, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": canary}, Bytes: quoted}), "tls.key is encrypted with a passphrase: store it without one (openssl pkey)"},
		"OpenSSH":                     {m.crt, block("OPENSSH PRIVATE KEY", quoted), "tls.key is in the format of OpenSSH: convert it to PKCS #8 (ssh-keygen -p -m PKCS8)"},
		"issuer first":                {joined(m.issuer, m.crt), m.key, "tls.key is the private key of certificate 2 of tls.crt: put that certificate first, and its issuers after it"},
		"key of another certificate":  {m.crt, m.other, "tls.key is not the private key of the certificate in tls.crt: they are of two rotations, or of two certificates"},
		"only the issuer":             {m.issuer, m.key, "tls.key is not the private key of the certificate in tls.crt: they are of two rotations, or of two certificates"},
		"key of another kind":         {m.crt, m.ed25519, "the certificate in tls.crt is for an ECDSA key, and tls.key is an Ed25519 key: they are no pair"},
		"both unusable":               {quoted, block("PRIVATE KEY", quoted), "tls.crt is not a PEM-encoded certificate: it has no line \"-----BEGIN CERTIFICATE-----\"; tls.key is malformed, or of an unknown kind: its PEM block holds no RSA, ECDSA or Ed25519 key"},
		"key before the certificate":  {joined(m.key, m.crt), m.key, ""},
		"certificate beside the key":  {m.crt, joined(m.crt, m.key), ""},
		"chain":                       {joined(m.crt, m.issuer), m.key, ""},
		"text before the certificate": {joined([]byte("subject=CN\n"), m.crt), m.key, ""},
		"Windows line breaks":         {bytes.ReplaceAll(m.crt, []byte("\n"), []byte("\r\n")), m.key, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(&corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{corev1.TLSCertKey: tc.crt, corev1.TLSPrivateKeyKey: tc.key}})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got error %q, want %q", got, tc.want)
			}
			if strings.Contains(got, canary) || strings.Contains(got, canary[:6]) {
				t.Errorf("error %q holds data of the Secret", got)
			}
		})
	}
}
