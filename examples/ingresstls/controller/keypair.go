// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// keyPair is tls.X509KeyPair with other errors: each names the cause that can be told from the outside, and quotes
// nothing of the data. Those of crypto/tls and crypto/x509 quote the types of PEM blocks, and other parts of what they
// read.
func keyPair(secret *corev1.Secret) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err == nil {
		return pair, nil
	}
	certificate, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if find(certificate, isPrivateKey) != nil && find(certificate, isCertificate) == nil &&
		find(key, isCertificate) != nil && find(key, isPrivateKey) == nil {
		return tls.Certificate{}, errors.New("tls.crt has the private key and tls.key the certificate: swap them")
	}
	chain, certificateErr := parseChain(certificate)
	private, keyErr := parseKey(key)
	switch {
	case certificateErr != nil && keyErr != nil:
		return tls.Certificate{}, fmt.Errorf("%w; %w", certificateErr, keyErr) // on one line, for a status and a log
	case certificateErr != nil || keyErr != nil:
		return tls.Certificate{}, cmp.Or(certificateErr, keyErr)
	}
	return tls.Certificate{}, mismatch(chain, private)
}

// parseChain returns the certificates of tls.crt.
func parseChain(data []byte) (chain []*x509.Certificate, err error) {
	if first := find(data, isCertificate); first == nil {
		return nil, notFound(corev1.TLSCertKey, "certificate", "CERTIFICATE", data, func(der []byte) bool {
			_, err := x509.ParseCertificate(der)
			return err == nil
		})
	}
	for len(data) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if !isCertificate(block) {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of tls.crt is malformed: its PEM block holds no X.509 certificate", len(chain)+1)
		}
		chain = append(chain, c)
	}
	return chain, nil
}

// parseKey returns the private key of tls.key.
func parseKey(data []byte) (crypto.Signer, error) {
	block := find(data, isPrivateKey)
	switch {
	case block == nil:
		return nil, notFound(corev1.TLSPrivateKeyKey, "private key", "PRIVATE KEY", data, func(der []byte) bool { return signer(der) != nil })
	case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return nil, errors.New("tls.key is encrypted with a passphrase: store it without one (openssl pkey)")
	case block.Type == "OPENSSH PRIVATE KEY":
		return nil, errors.New("tls.key is in the format of OpenSSH: convert it to PKCS #8 (ssh-keygen -p -m PKCS8)")
	}
	if key := signer(block.Bytes); key != nil {
		return key, nil
	}
	return nil, errors.New("tls.key is malformed, or of an unknown kind: its PEM block holds no RSA, ECDSA or Ed25519 key")
}

// mismatch returns why a certificate and a key, each of which can be read, are no pair.
func mismatch(chain []*x509.Certificate, key crypto.Signer) error {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	for i, c := range chain {
		if i > 0 && ok && public.Equal(c.PublicKey) {
			return fmt.Errorf("tls.key is the private key of certificate %d of tls.crt: put that certificate first, and its issuers after it", i+1)
		}
	}
	if certified, held := kindOf(chain[0].PublicKey), kindOf(key.Public()); certified != held {
		return fmt.Errorf("the certificate in tls.crt is for %s key, and tls.key is %s key: they are no pair", certified, held)
	}
	return errors.New("tls.key is not the private key of the certificate in tls.crt: they are of two rotations, or of two certificates")
}

// notFound returns why a field of a Secret has no PEM block of a kind. isDER reports whether data is such an object
// without PEM.
func notFound(field, kind, block string, data []byte, isDER func([]byte) bool) error {
	decoded, base64Err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
	begin := []byte("-----BEGIN ")
	switch {
	case len(data) == 0:
		return fmt.Errorf("%s is missing or empty", field)
	case isDER(data):
		return fmt.Errorf("%s is a %s in DER: convert it to PEM", field, kind)
	case base64Err == nil && bytes.Contains(decoded, begin):
		return fmt.Errorf("%s is encoded in base64 twice: encode it once, or use stringData", field)
	case base64Err == nil && isDER(decoded):
		return fmt.Errorf(`%s is a %s in base64 without its PEM lines: add "-----BEGIN %s-----" and "-----END %s-----"`, field, kind, block, block)
	case bytes.Contains(bytes.ReplaceAll(data, []byte{0}, nil), begin) && !bytes.Contains(data, begin):
		return fmt.Errorf("%s is in UTF-16: save it as UTF-8 or ASCII", field)
	case bytes.Contains(data, begin) && bytes.Contains(data, []byte(`\n`)):
		return fmt.Errorf(`%s has the characters "\n" in the place of line breaks`, field)
	}
	found := find(data, func(*pem.Block) bool { return true })
	switch {
	case found == nil && bytes.Contains(data, begin):
		return fmt.Errorf("the PEM block of %s is cut off or malformed", field)
	case found == nil:
		return fmt.Errorf(`%s is not a PEM-encoded %s: it has no line "-----BEGIN %s-----"`, field, kind, block)
	case isCertificate(found):
		return fmt.Errorf("%s has a certificate, and no %s", field, kind)
	case isPrivateKey(found):
		return fmt.Errorf("%s has a private key, and no %s", field, kind)
	case strings.HasSuffix(found.Type, "CERTIFICATE REQUEST"):
		return fmt.Errorf("%s has a certificate request, and no %s", field, kind)
	case strings.HasSuffix(found.Type, "PUBLIC KEY"):
		return fmt.Errorf("%s has a public key, and no %s", field, kind)
	}
	return fmt.Errorf("%s has PEM blocks, and none of the type %s", field, block)
}

// find returns the first PEM block for which is holds, or nil.
func find(data []byte, is func(*pem.Block) bool) *pem.Block {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil || is(block) {
			return block
		}
	}
}

// The blocks that tls.X509KeyPair uses.

func isCertificate(block *pem.Block) bool { return block.Type == "CERTIFICATE" }

func isPrivateKey(block *pem.Block) bool {
	return block.Type == "PRIVATE KEY" || strings.HasSuffix(block.Type, " PRIVATE KEY")
}

// signer returns the private key in DER, or nil.
func signer(der []byte) crypto.Signer {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if signer, ok := key.(crypto.Signer); ok && err == nil {
		return signer
	}
	return nil
}

func kindOf(public crypto.PublicKey) string {
	switch public.(type) {
	case *rsa.PublicKey:
		return "an RSA"
	case *ecdsa.PublicKey:
		return "an ECDSA"
	case ed25519.PublicKey:
		return "an Ed25519"
	}
	return "an unknown kind of"
}
