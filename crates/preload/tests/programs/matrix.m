% Multiplies, decomposes and sorts matrices.
side = str2double(argv(){end});
a = reshape(mod((1:side * side) * 7919, 1000003), side, side) / 1000003;
b = a * a';
[l, u, p] = lu(b + side * eye(side));
c = sort(a(:));
printf("%.12g %.12g %.12g\n", sum(b(:)), sum(diag(u)), c(side));
