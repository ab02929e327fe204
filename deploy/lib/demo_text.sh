#!/usr/bin/env bash
# Makes the demonstration's texts from the perl manuals of Debian's perl-doc: plain English prose that any fresh machine
# can have.   demo_text.sh [DIR]   (default build/demo_text) writes
#   fit.txt      for the statistics          articles start at a line of the form " = Title = ",
#   select.txt   for the risk path, the gate and no article is in two of the files
#   confirm.txt  for the check of the gate
# and prints DIR. Code listings are left out: they are not prose.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
dir=${1:-$repo_root/build/demo_text}


# shellcheck disable=SC2034  # read by name below
fit="perlfaq3 perlfaq4 perlfaq5 perlfaq8 perlsub perlipc perlhack perlport perlretut perlthrtut perluniintro perlobj perlmodstyle perlgit"
select="perlfaq2 perlfaq6 perlfaq9 perldebguts perlpolicy perlootut perlsec perlintro perlopentut perlperf perlunifaq perlfork"
confirm="perlfaq1 perlfaq7 perlhist perlmod perldebtut perltie perlnewmod perlreftut perlstyle perlnumber perllol perlunitut"

stamp="1 $(dpkg-query -W -f='${Version}' perl-doc 2>/dev/null || true)"
if [ -f "$dir/.stamp" ] && [ "$(cat "$dir/.stamp")" = "$stamp" ]; then
  echo "$dir"
  exit 0
fi
have perl || die "no perl" "deploy/setup.sh installs it"
pods=$(find /usr/share/perl /usr/share/perl5 -name perlfaq4.pod -printf '%h\n' -quit 2>/dev/null || true)
[ -n "$pods" ] || die "the perl manuals are not there" "deploy/setup.sh installs perl-doc; or give texts of your own with 'riskkv demo --text'"

# shellcheck disable=SC2016
converter='
package Prose;
use strict; use warnings;
use parent "Pod::Text";
sub cmd_verbatim { "" }
sub heading { my ($self, $text, $bars) = @_; $text =~ s/\s+/ /g; $text =~ s/^ | $//g; return "\n $bars $text $bars \n\n"; }
sub cmd_head1 { my ($self, $attrs, $text) = @_; $self->output($self->heading($text, "= =")); "" }
sub cmd_head2 { my ($self, $attrs, $text) = @_; $self->output($self->heading($text, "= = =")); "" }
sub cmd_head3 { goto &cmd_head2 }
sub cmd_head4 { goto &cmd_head2 }
package main;
for my $file (@ARGV) {
  my ($name) = $file =~ m{([^/]+)\.pod$};
  my ($out, $parser) = ("", Prose->new(width => 100000, indent => 0, sentence => 0, utf8 => 1));
  $parser->output_string(\$out);
  $parser->parse_file($file);
  utf8::decode($out) unless utf8::is_utf8($out);
  # one line a paragraph, and no line that could be taken for the start of an article
  $out =~ s/^ = (?!= )(.*) = $/$1/mg;
  $out =~ s/[ \t]+$//mg; $out =~ s/^ +(?!=)//mg; $out =~ s/\n{3,}/\n\n/g;
  $out =~ s/^( =.*=)$/$1 /mg;
  binmode STDOUT, ":utf8";
  print " = $name = \n\n$out\n";
}
'
mkdir -p "$dir"
for part in fit select confirm; do
  files=()
  for name in ${!part}; do
    [ ! -f "$pods/$name.pod" ] || files+=("$pods/$name.pod")
  done
  perl -e "$converter" "${files[@]}" > "$dir/$part.txt.part"
  articles=$(grep -c -E '^ = [^=].* = $' "$dir/$part.txt.part")
  [ "$articles" = ${#files[@]} ] && [ "$articles" -ge 4 ] ||
    die "$part.txt has $articles articles from ${#files[@]} manuals" "remove $dir, reinstall perl-doc and try again"
  mv "$dir/$part.txt.part" "$dir/$part.txt"
done
printf '%s' "$stamp" > "$dir/.stamp"
say "demonstration texts are in $dir ($(cat "$dir"/*.txt | wc -w) words)"
echo "$dir"
